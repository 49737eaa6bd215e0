#include "cli/session.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "cli/summary.h"
#include "machine/host.h"
#include "telemetry/log.h"

namespace rhizome {

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
    auto page = CountersPage::create(runtime_directory(environment, ::getuid()));
    if (!page) return complain(page.error());
    session.page_ = std::make_unique<CountersPage>(std::move(*page));
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
  ChildEnvironment environment = child_environment(flags_, page_ ? page_->path() : "");
  SpawnOptions options;
  options.environment = std::move(environment.set);
  options.environment_removed = std::move(environment.removed);
  options.die_with_parent = true;
  return options;
}

void Session::stopping() {
  if (metrics_) metrics_->set_trouble("stopping");
}

void Session::say_summary() const {
  if (flags_.json) {
    std::fputs(summary_json(counters()).c_str(), stdout);
    std::fflush(stdout);
  } else if (!flags_.off) {
    std::fputs(summary_text(counters()).c_str(), stderr);
  }
}

}  // namespace rhizome
