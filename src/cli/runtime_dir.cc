#include "cli/runtime_dir.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "machine/files.h"
#include "machine/host.h"

namespace rhizome {
namespace {

// "counters-<process>", what that process puts beside it as "counters-<process>.<what>", and "node-<process>.sock".
constexpr std::array<std::string_view, 2> kPrefixes = {"counters-", "node-"};

std::optional<pid_t> owner_of(std::string_view name) {
  const auto prefix = std::ranges::find_if(kPrefixes, [&](std::string_view one) { return name.starts_with(one); });
  if (prefix == kPrefixes.end()) return std::nullopt;
  name.remove_prefix(prefix->size());
  pid_t pid = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
  const std::string_view rest = name.substr(static_cast<size_t>(end - name.data()));
  if (failed != std::errc() || pid <= 0 || (!rest.empty() && !rest.starts_with('.'))) return std::nullopt;
  return pid;
}

// Pages that a killed process left. Another one may be doing the same just now: what is gone is gone.
void remove_orphans(const std::string& directory) {
  const auto names = list_directory(directory);
  if (!names) return;
  for (const std::string& name : *names) {
    const auto pid = owner_of(name);
    // A page with this process's own number is of an earlier process that had it.
    if (pid && (*pid == own_pid() || !is_process_alive(*pid))) (void)remove_file(directory + "/" + name);
  }
}

}  // namespace

std::string runtime_directory(const Environment& environment, uid_t user) {
  if (const auto given = environment("XDG_RUNTIME_DIR"); given && given->starts_with("/")) return *given + "/rhizome";
  const auto temporary = environment("TMPDIR");
  const std::string base = temporary && temporary->starts_with("/") ? *temporary : "/tmp";
  return base + "/rhizome-" + std::to_string(user);
}

std::string counters_path(const std::string& directory, pid_t pid) {
  return directory + "/" + std::string(kPrefixes[0]) + std::to_string(pid);
}

bool is_counters_page(std::string_view name) {
  if (!name.starts_with(kPrefixes[0]) || name.find('.') != std::string_view::npos) return false;
  const auto pid = owner_of(name);
  return pid && is_process_alive(*pid);
}

OrComplaint<CountersPage> CountersPage::create(const std::string& directory) {
  if (const auto made = make_private_directory(directory); !made) {
    return complain("the runtime directory " + directory + " cannot be used: " + made.error().reason +
                    "; remove it, or set XDG_RUNTIME_DIR to a directory of your own");
  }
  remove_orphans(directory);
  std::string path = counters_path(directory, own_pid());
  auto counters = Counters::create(path);
  if (!counters) return complain("the counters page " + path + " cannot be made: " + counters.error().reason);
  return CountersPage(std::move(path), std::move(*counters));
}

CountersPage::~CountersPage() {
  if (counters_) (void)remove_file(path_);
}

}  // namespace rhizome
