#include "engine/llama/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "machine/host.h"
#include "machine/units.h"

namespace rhizome {
namespace {

constexpr uint64_t kMemoryDefaultMax = uint64_t{8} << 30;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool switched_on(const char* name) {
  const std::string value = variable(name);
  return !value.empty() && value != "0" && value != "false";
}

std::string default_cache_directory() {
  if (const std::string base = variable("XDG_CACHE_HOME"); !base.empty()) return base + "/rhizome";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/rhizome";
  return {};
}

// Leaves `bytes` as they are when the variable is not set; false when it is no size.
bool size_variable(const char* name, uint64_t& bytes, std::string& problem) {
  const std::string text = variable(name);
  if (text.empty()) return true;
  const auto parsed = parse_bytes_or_plain(text);
  if (!parsed) {
    problem = std::string(name) + "=" + text + " is not a size such as 4GiB";
    return false;
  }
  bytes = *parsed;
  return true;
}

}  // namespace

Result<Settings> settings_from_environment(std::string& problem) {
  Settings settings;
  settings.off = switched_on("RHIZOME_OFF");
  settings.exact = switched_on("RHIZOME_EXACT");
  settings.exclusive = switched_on("RHIZOME_EXCLUSIVE");
  settings.restore = !switched_on("RHIZOME_NO_RESTORE");
  settings.tenant = variable("RHIZOME_TENANT");
  settings.counters_path = variable("RHIZOME_COUNTERS");
  settings.node_socket = variable("RHIZOME_ATTACH");
  if (settings.node_socket == "none") settings.node_socket.clear();
  settings.log = variable("RHIZOME_LOG");
  settings.cache_directory = variable("RHIZOME_CACHE_DIR");
  if (settings.cache_directory.empty()) settings.cache_directory = default_cache_directory();
  settings.memory_bytes = std::min(total_memory_bytes() / 4, kMemoryDefaultMax);
  if (!size_variable("RHIZOME_MEMORY", settings.memory_bytes, problem) ||
      !size_variable("RHIZOME_DISK", settings.disk_bytes, problem) ||
      !size_variable("RHIZOME_DISK_WRITES", settings.disk_bytes_per_day, problem)) {
    return fail(Code::kInvalidArgument, "a variable is not a size");
  }
  if (settings.memory_bytes == 0) {
    problem = "RHIZOME_MEMORY=" + variable("RHIZOME_MEMORY") + " is not a size such as 4GiB";
    return fail(Code::kInvalidArgument, "RHIZOME_MEMORY is not a size");
  }
  if (const std::string text = variable("RHIZOME_WATERMARKS"); !text.empty()) {
    settings.watermarks = parse_watermarks(text);
    if (!settings.watermarks) {
      problem = "RHIZOME_WATERMARKS=" + text + " is not two percentages such as 90:70";
      return fail(Code::kInvalidArgument, "RHIZOME_WATERMARKS is not two percentages");
    }
  }
  if (const std::string text = variable("RHIZOME_BLOCK_TOKENS"); !text.empty()) {
    const std::string_view offered[] = {"16", "32", "64", "128", "256"};
    if (std::find(std::begin(offered), std::end(offered), text) == std::end(offered)) {
      problem = "RHIZOME_BLOCK_TOKENS=" + text + " is none of 16, 32, 64, 128, 256";
      return fail(Code::kInvalidArgument, "RHIZOME_BLOCK_TOKENS is not offered");
    }
    settings.block_tokens = static_cast<uint32_t>(std::atoi(text.c_str()));
  }
  return settings;
}

}  // namespace rhizome
