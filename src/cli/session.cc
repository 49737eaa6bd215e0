#include "cli/session.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "cli/summary.h"
#include "machine/clock.h"
#include "machine/host.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// How long the end waits for blocks that are not on disk yet, and until when after it was asked for.
constexpr uint64_t kLastWritesNs = 2'000'000'000;
constexpr uint64_t kStopNs = 4'800'000'000;

}  // namespace

OrComplaint<Parts> find_parts() {
  const auto program = own_executable_path();
  if (!program) return complain(std::string("the place of this program is not known: ") + program.error().reason);
  // <prefix>/bin/rhizome; a program that lies at the root has the root for a prefix.
  std::string prefix = program->substr(0, program->rfind('/'));
  prefix.resize(std::min(prefix.rfind('/'), prefix.size()));
  return Parts{.program = *program,
               .library = prefix + "/lib/librhizome_llama.so",
               .server = prefix + "/libexec/rhizome/llama-server",
               .stock_server = prefix + "/libexec/stock/llama-server"};
}

OrComplaint<Session> Session::open(const CacheFlags& flags, const Environment& environment) {
  Session session(flags);
  if (!flags.off && flags.disk_bytes == 0 && (flags.exclusive || flags.watermarks || flags.disk_bytes_per_day > 0)) {
    log_warning("--exclusive, --watermarks and --disk-writes do nothing without --disk");
  }
  if (flags.off) {
    session.local_ = Counters::local();
  } else {
    const std::string directory = runtime_directory(environment, ::getuid());
    auto page = CountersPage::create(directory);
    if (!page) return complain(page.error());
    session.page_ = std::make_unique<CountersPage>(std::move(*page));
    auto node = NodeChoice::make(flags, directory, session.page_->counters());
    if (!node) return complain(node.error());
    session.node_ = std::move(*node);
    session.flags_.memory_bytes = session.node_->memory_bytes();
  }
  if (flags.metrics_port) {
    auto metrics = MetricsServer::start(*flags.metrics_port, session.counters());
    if (!metrics) {
      return complain("--metrics-port " + std::to_string(*flags.metrics_port) + ": " + metrics.error().reason +
                      "; give another, or 0 for a free one");
    }
    session.metrics_ = std::move(*metrics);
    log_info("metrics at http://127.0.0.1:{}/metrics", session.metrics_->port());
  }
  return session;
}

SpawnOptions Session::spawn_options() const {
  ChildEnvironment environment =
      child_environment(flags_, page_ ? page_->path() : "", node_ ? node_->socket_path() : "");
  SpawnOptions options;
  options.environment = std::move(environment.set);
  options.environment_removed = std::move(environment.removed);
  options.die_with_parent = true;
  return options;
}

void Session::stopping() {
  stopping_ns_ = monotonic_now_ns();
  if (metrics_) metrics_->set_trouble("stopping");
}

void Session::finish() {
  if (node_) {
    const uint64_t now_ns = monotonic_now_ns();
    const uint64_t end_ns = stopping_ns_ == 0 ? UINT64_MAX : stopping_ns_ + kStopNs;
    node_->flush(std::min(kLastWritesNs, std::max(end_ns, now_ns) - now_ns));
  }
  if (flags_.json) {
    std::fputs(summary_json(counters()).c_str(), stdout);
    std::fflush(stdout);
  } else if (!flags_.off) {
    std::fputs(summary_text(counters()).c_str(), stderr);
  }
}

}  // namespace rhizome
