// The runtime directory: what lives no longer than the processes that use it.
//
// Thread-safety: may be called from any thread; several processes may share the directory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "cli/complaint.h"
#include "cli/parse.h"
#include "telemetry/counters.h"

namespace rhizome {

// $XDG_RUNTIME_DIR/rhizome, else rhizome-<user id> under the temporary directory.
std::string runtime_directory(const Environment& environment, uid_t user);

// Where a process keeps its page of counters there, and whether a file of that name is one of a process that runs:
// what a killed one left is not.
std::string counters_path(const std::string& directory, pid_t pid);
bool is_counters_page(std::string_view name);

// A page of counters in a file that is removed with this object.
class CountersPage {
 public:
  // Makes the directory if it is not there (mode 0700, the caller's own, else refused), removes the
  // pages of processes that are gone, and creates this process's.
  static OrComplaint<CountersPage> create(const std::string& directory);

  CountersPage(CountersPage&& other) noexcept = default;
  CountersPage& operator=(CountersPage&&) = delete;
  ~CountersPage();

  const std::string& path() const { return path_; }
  Counters& counters() const { return *counters_; }

 private:
  CountersPage(std::string path, std::unique_ptr<Counters> counters)
      : path_(std::move(path)), counters_(std::move(counters)) {}

  std::string path_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace rhizome
