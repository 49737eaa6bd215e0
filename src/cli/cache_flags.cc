#include "cli/cache_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "machine/units.h"

namespace rhizome {
namespace {

constexpr uint64_t kMemoryMost = uint64_t{8} << 30;
constexpr uint64_t kMemoryShare = 4;
constexpr uint64_t kDiskLeast = uint64_t{64} << 20;
constexpr std::array<uint32_t, 5> kBlockTokens = {16, 32, 64, 128, 256};
constexpr size_t kSocketPathLength = 107;  // sun_path of unix(7), less its last zero

std::string quoted(const GivenValue& value) {
  return value.source + " is '" + value.text + "'";
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_plain_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::string> check_memory(const GivenValue& value, uint64_t machine_bytes, CacheFlags& flags) {
  // In the environment a plain number is bytes, as the library reads it; on the line it may be a slip.
  const bool in_bytes = value.source.starts_with("RHIZOME_");
  if (is_plain_number(value.text) && !in_bytes && value.text.find_first_not_of('0') != std::string::npos) {
    return quoted(value) + "; a size needs a unit, for example " + value.text + "MiB or 4GiB";
  }
  const auto bytes = parse_bytes_or_plain(value.text);
  if (!bytes) return quoted(value) + "; it must be a size, for example 4GiB or 500MB";
  if (*bytes == 0) {
    return quoted(value) + "; the cache needs memory for at least one block (to run without a cache: --off)";
  }
  if (*bytes > machine_bytes) {
    return quoted(value) + "; this machine has " + format_bytes(machine_bytes) + ", and the model needs some of it";
  }
  flags.memory_bytes = *bytes;
  flags.memory_source = value.source;
  return std::nullopt;
}

// 0 turns it off.
std::optional<std::string> check_disk_size(const GivenValue& value, uint64_t least, uint64_t& bytes) {
  const bool in_bytes = value.source.starts_with("RHIZOME_");
  if (is_plain_number(value.text) && !in_bytes && value.text.find_first_not_of('0') != std::string::npos) {
    return quoted(value) + "; a size needs a unit, for example " + value.text + "MiB or 20GiB";
  }
  const auto parsed = parse_bytes_or_plain(value.text);
  if (!parsed) return quoted(value) + "; it must be a size, for example 20GiB or 500MB";
  if (*parsed != 0 && *parsed < least) return quoted(value) + "; it must be at least " + format_bytes(least);
  bytes = *parsed;
  return std::nullopt;
}

std::optional<std::string> check_watermarks(const GivenValue& value, CacheFlags& flags) {
  flags.watermarks = parse_watermarks(value.text);
  if (flags.watermarks) return std::nullopt;
  return quoted(value) + "; it must be two percentages of memory, the higher one first, for example 90:70";
}

std::optional<std::string> check_block_tokens(const GivenValue& value, CacheFlags& flags) {
  const auto tokens = whole_number<uint32_t>(value.text);
  if (!tokens || std::ranges::find(kBlockTokens, *tokens) == kBlockTokens.end()) {
    return quoted(value) + "; it must be 16, 32, 64, 128 or 256";
  }
  flags.block_tokens = *tokens;
  return std::nullopt;
}

std::optional<std::string> check_verify(const GivenValue& value, CacheFlags& flags) {
  if (value.text != "always" && value.text != "tier" && value.text != "sample") {
    return quoted(value) + "; it must be always, tier or sample";
  }
  flags.verify = value.text;
  return std::nullopt;
}

std::optional<std::string> check_metrics_port(const GivenValue& value, CacheFlags& flags) {
  const auto port = whole_number<uint16_t>(value.text);
  if (!port) return quoted(value) + "; it must be a port from 0 to 65535";
  flags.metrics_port = port;
  return std::nullopt;
}

std::optional<std::string> check_attach(const GivenValue& value, CacheFlags& flags) {
  if (value.text.empty() || value.text.size() > kSocketPathLength) {
    return quoted(value) + "; it must be the path of a node's socket, of at most " + std::to_string(kSocketPathLength) +
           " bytes, or none";
  }
  flags.attach = value.text;
  return std::nullopt;
}

std::string default_cache_dir(const Environment& environment) {
  if (auto cache = environment("XDG_CACHE_HOME")) return *cache + "/rhizome";
  if (auto home = environment("HOME")) return *home + "/.cache/rhizome";
  return "";
}

}  // namespace

uint64_t default_memory_bytes(uint64_t machine_bytes) {
  return std::min(machine_bytes / kMemoryShare, kMemoryMost);
}

OrComplaint<CacheFlags> check_flags(const Given& given, uint64_t machine_bytes, const Environment& environment) {
  CacheFlags flags;
  flags.memory_bytes = default_memory_bytes(machine_bytes);
  flags.cache_dir = default_cache_dir(environment);
  for (const auto& [name, value] : given) {
    std::optional<std::string> wrong;
    if (name == "memory") wrong = check_memory(value, machine_bytes, flags);
    if (name == "disk") {
      wrong = check_disk_size(value, kDiskLeast, flags.disk_bytes);
      if (flags.disk_bytes > 0) flags.disk_source = value.source;
    }
    if (name == "disk-writes") wrong = check_disk_size(value, kDiskLeast, flags.disk_bytes_per_day);
    if (name == "watermarks") wrong = check_watermarks(value, flags);
    if (name == "block-tokens") wrong = check_block_tokens(value, flags);
    if (name == "verify") wrong = check_verify(value, flags);
    if (name == "metrics-port") wrong = check_metrics_port(value, flags);
    if (name == "attach") wrong = check_attach(value, flags);
    if (name == "cache-dir") {
      if (value.text.empty()) wrong = quoted(value) + "; it must be a directory";
      flags.cache_dir = value.text;
    }
    if (name == "exclusive") flags.exclusive = value.text == "true";
    if (name == "off") flags.off = value.text == "true";
    if (name == "no-restore") flags.no_restore = value.text == "true";
    if (name == "exact") flags.exact = value.text == "true";
    if (name == "json") flags.json = value.text == "true";
    if (wrong) return complain(*wrong);
  }
  const SharedSizes sizes{flags.memory_bytes, flags.disk_bytes, flags.disk_bytes_per_day, flags.cache_dir};
  flags.tenants = {whole_share({}, sizes)};
  if (const auto tenant = given.find("tenant"); tenant != given.end()) {
    auto shares = share_out(tenant->second, sizes);
    if (!shares) return complain(shares.error());
    flags.tenants = std::move(*shares);
    flags.tenant = flags.tenants.front().name;
    flags.tenant_source = tenant->second.source;
  }
  return flags;
}

std::optional<std::string> more_than_a_tenant(const CacheFlags& flags) {
  if (flags.tenants.size() > 1) {
    return flags.tenant_source + " names several; serve and run belong to one tenant, daemon takes several";
  }
  if (flags.tenants.front().has_own_size) {
    return flags.tenant_source + " has a size, which is for daemon; here it is --memory";
  }
  return std::nullopt;
}

ChildEnvironment child_environment(const CacheFlags& flags, const std::string& counters_path,
                                   const std::string& node_socket) {
  ChildEnvironment environment;
  const auto set_or_remove = [&](const char* name, const std::string& value) {
    if (value.empty()) {
      environment.removed.emplace_back(name);
    } else {
      environment.set.emplace_back(name, value);
    }
  };
  const auto as_switch = [](bool on) { return std::string(on ? "1" : ""); };
  set_or_remove("RHIZOME_MEMORY", std::to_string(flags.memory_bytes));
  const auto size_or_none = [](uint64_t bytes) { return bytes == 0 ? std::string() : std::to_string(bytes); };
  set_or_remove("RHIZOME_DISK", size_or_none(flags.disk_bytes));
  set_or_remove("RHIZOME_DISK_WRITES", size_or_none(flags.disk_bytes_per_day));
  set_or_remove("RHIZOME_EXCLUSIVE", as_switch(flags.exclusive));
  const auto& marks = flags.watermarks;
  set_or_remove("RHIZOME_WATERMARKS", marks ? std::to_string(marks->high) + ":" + std::to_string(marks->low) : "");
  set_or_remove("RHIZOME_BLOCK_TOKENS", std::to_string(flags.block_tokens));
  set_or_remove("RHIZOME_EXACT", as_switch(flags.exact));
  set_or_remove("RHIZOME_NO_RESTORE", as_switch(flags.no_restore));
  set_or_remove("RHIZOME_OFF", as_switch(flags.off));
  set_or_remove("RHIZOME_VERIFY", flags.verify);
  set_or_remove("RHIZOME_TENANT", flags.tenant);
  set_or_remove("RHIZOME_CACHE_DIR", flags.cache_dir);
  set_or_remove("RHIZOME_COUNTERS", counters_path);
  set_or_remove("RHIZOME_ATTACH", node_socket);
  return environment;
}

}  // namespace rhizome
