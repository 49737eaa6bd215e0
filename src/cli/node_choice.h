// Which node the engine of a `serve` or `run` attaches to: this host's, the one that was named, or one in this process.
//
// By default that is the host's node. Where there is none this process becomes it; where it does not take us (another
// tenant, blocks of another size) this process keeps one for its own engine alone. When the host's node ends that a
// `serve` or `run` was, whoever was attached to it by default becomes it: of several exactly one, and the others'
// engines attach to that one. A daemon is waited for: it has flags of its own, and who runs it starts it again. What
// the host's node holds outlives it when it is killed, for whoever is the next (node/keeper.h).
//
// Thread-safety: belongs to one thread; made and destroyed by the same.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "cli/cache_flags.h"
#include "cli/complaint.h"
#include "cli/own_node.h"
#include "concurrency/mutex.h"
#include "machine/poller.h"
#include "machine/process_watch.h"
#include "machine/thread.h"
#include "telemetry/counters.h"

namespace rhizome {

class NodeChoice {
 public:
  // Says in the log what was chosen where that is not this process. A complaint: the node that --attach names is not
  // there, or does not take us. `counters` must outlive this, and get what a node of this process counts.
  static OrComplaint<std::unique_ptr<NodeChoice>> make(const CacheFlags& flags, const std::string& runtime_directory,
                                                       Counters& counters);
  ~NodeChoice();
  NodeChoice(const NodeChoice&) = delete;
  NodeChoice& operator=(const NodeChoice&) = delete;

  // Empty: there can be no node, and the engine keeps a cache of its own.
  const std::string& socket_path() const { return socket_path_; }
  // What that node's cache may take.
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Once the engine has ended: a node of this process writes what is worth it to its disk.
  void flush(uint64_t wait_ns);

 private:
  NodeChoice(CacheFlags flags, Counters& counters) : flags_(std::move(flags)), counters_(counters) {}

  OrComplaint<void> attach_named();
  void choose_at(const std::string& host_path, const std::string& private_path);
  // Attached, refused, or there is nobody.
  enum class Found : uint8_t { kAttached, kRefused, kNobody };
  Found find_host(const std::string& host_path);
  // kOk: it is. Other than kAlreadyExists is said in the log. `is_host`: the path is the host's.
  Code become_node(const std::string& path, bool is_host);
  void watch_host();
  void follow_host(const std::stop_token& stop);
  // True: this process is the node now. Else another one may be, which is then the one to watch.
  bool take_over();

  const CacheFlags flags_;
  Counters& counters_;
  std::string socket_path_;
  uint64_t memory_bytes_ = 0;

  Mutex mutex_;
  std::unique_ptr<OwnNode> own_ GUARDED_BY(mutex_);
  std::unique_ptr<ProcessWatch>
      host_;                        // of who is the host's node, unless that comes back; the thread's, once that runs
  std::unique_ptr<Poller> poller_;  // wakes the thread
  Thread thread_;
};

}  // namespace rhizome
