// What a call of `serve` or `run` holds while its program runs: where the parts of Rhizome are, the page
// of counters, the node, the metrics.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/cache_flags.h"
#include "cli/complaint.h"
#include "cli/node_choice.h"
#include "cli/runtime_dir.h"
#include "machine/process.h"
#include "serve/http/metrics_server.h"

namespace rhizome {

// Beside the running program: <prefix>/bin/rhizome, <prefix>/lib, <prefix>/libexec.
struct Parts {
  std::string program;
  std::string library;
  std::string server;
  std::string stock_server;
};
OrComplaint<Parts> find_parts();

class Session {
 public:
  // With --off there is no page: nobody would write to it.
  static OrComplaint<Session> open(const CacheFlags& flags, const Environment& environment);

  const Counters& counters() const { return page_ ? page_->counters() : *local_; }
  // The child's environment, and that it ends with this process.
  SpawnOptions spawn_options() const;
  // A file that this call may write and remove; not to be asked for without a page.
  std::string scratch_path() const { return page_->path() + ".scratch"; }
  // /health says no from now on.
  void stopping();
  // To be called when the child has ended: writes what is not on disk yet, and says the summary, in the form that was
  // asked for.
  void finish();

 private:
  explicit Session(CacheFlags flags) : flags_(std::move(flags)) {}

  CacheFlags flags_;
  std::unique_ptr<CountersPage> page_;
  std::unique_ptr<Counters> local_;
  std::unique_ptr<NodeChoice> node_;
  uint64_t stopping_ns_ = 0;                // 0: it was not told to stop
  std::unique_ptr<MetricsServer> metrics_;  // shows the counters: goes first
};

}  // namespace rhizome
