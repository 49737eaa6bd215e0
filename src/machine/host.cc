#include "machine/host.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include "machine/files.h"

namespace rhizome {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSmallFileBytes = 1 << 20;

std::optional<uint64_t> parse_u64(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "max" (version 2) and absent files are no limit; version 1 writes a number near 2^63 for that.
uint64_t limit_in_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path, 64);
  if (!text) return kNoLimit;
  return parse_u64(*text).value_or(kNoLimit);
}

// A limit further up binds as well, and in a container the path may name groups that are not mounted.
uint64_t lowest_limit(const std::string& mount, std::string group, const char* file) {
  uint64_t lowest = kNoLimit;
  for (;;) {
    while (!group.empty() && group.back() == '/')
      group.pop_back();
    lowest = std::min(lowest, limit_in_file(mount + group + "/" + file));
    if (group.empty()) return lowest;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool names_memory(std::string_view controllers) {
  for (;;) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

Result<std::string> read_proc(pid_t pid, const char* file) {
  if (pid <= 0) return fail(Code::kInvalidArgument, "not a process id");
  Result<std::string> text = read_text_file("/proc/" + std::to_string(pid) + "/" + file, kSmallFileBytes);
  if (text && text->empty()) return fail(Code::kNotFound, "the process has ended");
  return text;
}

// The n-th field, counted from zero, of blank-separated text.
std::string_view field(std::string_view text, size_t n) {
  size_t at = 0;
  for (;;) {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
    size_t end = at;
    while (end < text.size() && !std::isspace(static_cast<unsigned char>(text[end])))
      ++end;
    if (n-- == 0 || at == end) return text.substr(at, end - at);
    at = end;
  }
}

// What stands behind the program's name in /proc/<pid>/stat; the name may itself hold ')' and blanks.
Result<std::string> stat_after_name(pid_t pid) {
  const Result<std::string> text = read_proc(pid, "stat");
  if (!text) return fail(text.error());
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return fail(Code::kInternal, "a process's stat is not as expected");
  return text->substr(name_end + 1);
}

}  // namespace

uint64_t total_memory_bytes() {
  const uint64_t machine =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const Result<std::string> membership = read_text_file("/proc/self/cgroup", kSmallFileBytes);
  if (!membership) return machine;
  return std::min(machine, cgroup_memory_limit_bytes(*membership, "/sys/fs/cgroup"));
}

uint64_t cgroup_memory_limit_bytes(std::string_view membership, const std::string& root) {
  uint64_t lowest = kNoLimit;
  while (!membership.empty()) {
    const size_t end = membership.find('\n');
    const std::string_view line = membership.substr(0, end);
    membership = end == std::string_view::npos ? std::string_view{} : membership.substr(end + 1);
    // "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      lowest = std::min(lowest, lowest_limit(root, group, "memory.max"));
      lowest = std::min(lowest, lowest_limit(root + "/unified", group, "memory.max"));
    } else if (names_memory(controllers)) {
      lowest = std::min(lowest, lowest_limit(root + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

uint32_t cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
  // More CPUs than the set has room for.
  return static_cast<uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1l));
}

Result<uint64_t> process_rss_bytes(pid_t pid) {
  const Result<std::string> text = read_proc(pid, "statm");
  if (!text) return fail(text.error());
  const std::optional<uint64_t> pages = parse_u64(field(*text, 1));
  if (!pages) return fail(Code::kInternal, "a process's statm is not as expected");
  return *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<double> process_cpu_seconds(pid_t pid) {
  const Result<std::string> text = stat_after_name(pid);
  if (!text) return fail(text.error());
  // utime and stime are fields 14 and 15 of the line, 11 and 12 behind the name.
  const std::optional<uint64_t> user = parse_u64(field(*text, 11));
  const std::optional<uint64_t> system = parse_u64(field(*text, 12));
  if (!user || !system) return fail(Code::kInternal, "a process's stat is not as expected");
  return static_cast<double>(*user + *system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

bool is_process_alive(pid_t pid) {
  const Result<std::string> text = stat_after_name(pid);
  if (!text) return false;
  const std::string_view state = field(*text, 0);
  return state != "Z" && state != "X";
}

pid_t own_pid() {
  return ::getpid();
}

Result<std::string> own_executable_path() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return fail(error_from_errno(errno, "cannot tell which program this is"));
  path.resize(static_cast<size_t>(length));
  return path;
}

}  // namespace rhizome
