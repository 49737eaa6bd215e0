#include "cli/tenant_shares.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "machine/units.h"

namespace rhizome {
namespace {

constexpr size_t kTenantLength = 64;

// The comma divides a list, and the equals sign a name from its size.
bool is_tenant_name(std::string_view name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != ',' && c != '='; });
  return !name.empty() && name.size() <= kTenantLength && is_plain;
}

// A file's name for any name of a tenant, and for no two the same.
std::string directory_name(std::string_view tenant) {
  std::string name;
  for (const char c : tenant) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "_%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    name += is_plain ? std::string(1, c) : std::string(code.data());
  }
  return name;
}

OrComplaint<TenantShare> read_share(const std::string& source, std::string_view word) {
  TenantShare share;
  const size_t equals = word.find('=');
  share.name = word.substr(0, equals);
  if (!is_tenant_name(share.name)) {
    return complain(source + " is '" + std::string(word) +
                    "'; a tenant is 1 to 64 printable characters without spaces, commas and equals signs");
  }
  if (equals == std::string_view::npos) return share;
  const std::string size(word.substr(equals + 1));
  const auto bytes = parse_bytes(size);
  if (!bytes) {
    return complain(source + " is '" + std::string(word) + "'; after '=' it must be a size, for example " + share.name +
                    "=4GiB");
  }
  share.memory_bytes = *bytes;
  share.has_own_size = true;
  return share;
}

std::string each_needs(const std::string& source, const TenantShare& share, const std::string& of, uint64_t least) {
  return source + ": " + share.name + " would have " + of + "; each tenant needs at least " + format_bytes(least);
}

// Rounded down; of numbers whose product may be too large.
uint64_t part_of(uint64_t bytes, uint64_t share, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * share / whole);
}

std::optional<std::string> share_memory(const std::string& source, uint64_t memory_bytes,
                                        std::vector<TenantShare>& shares) {
  uint64_t given_bytes = 0;
  for (const TenantShare& share : shares) {
    if (share.memory_bytes > memory_bytes - given_bytes) {
      return source + ": together they take more than --memory, which is " + format_bytes(memory_bytes);
    }
    given_bytes += share.memory_bytes;
  }
  const auto equal_parts = static_cast<uint64_t>(std::ranges::count(shares, false, &TenantShare::has_own_size));
  for (TenantShare& share : shares) {
    if (!share.has_own_size) share.memory_bytes = (memory_bytes - given_bytes) / equal_parts;
    if (share.memory_bytes < kTenantMemoryLeast) {
      return each_needs(source, share, format_bytes(share.memory_bytes) + " of the memory", kTenantMemoryLeast);
    }
  }
  return std::nullopt;
}

}  // namespace

TenantShare whole_share(std::string name, const SharedSizes& sizes) {
  return {.name = std::move(name),
          .memory_bytes = sizes.memory_bytes,
          .disk_bytes = sizes.disk_bytes,
          .disk_bytes_per_day = sizes.disk_bytes_per_day,
          .directory = sizes.cache_dir + "/blocks"};
}

OrComplaint<std::vector<TenantShare>> share_out(const GivenValue& tenants, const SharedSizes& sizes) {
  std::vector<TenantShare> shares;
  for (size_t at = 0; at <= tenants.text.size();) {
    const size_t end = std::min(tenants.text.find(',', at), tenants.text.size());
    auto share = read_share(tenants.source, std::string_view(tenants.text).substr(at, end - at));
    if (!share) return complain(share.error());
    if (std::ranges::find(shares, share->name, &TenantShare::name) != shares.end()) {
      return complain(tenants.source + " names " + share->name + " twice");
    }
    share->directory =
        sizes.cache_dir + (shares.empty() ? "/blocks" : "/tenants/" + directory_name(share->name) + "/blocks");
    shares.push_back(std::move(*share));
    at = end + 1;
  }
  if (shares.size() == 1 && !shares.front().has_own_size) return {{whole_share(shares.front().name, sizes)}};
  if (const auto wrong = share_memory(tenants.source, sizes.memory_bytes, shares)) return complain(*wrong);
  uint64_t whole = 0;
  for (const TenantShare& share : shares)
    whole += share.memory_bytes;
  for (TenantShare& share : shares) {
    share.disk_bytes = part_of(sizes.disk_bytes, share.memory_bytes, whole);
    share.disk_bytes_per_day = part_of(sizes.disk_bytes_per_day, share.memory_bytes, whole);
    if (sizes.disk_bytes > 0 && share.disk_bytes < kTenantDiskLeast) {
      return complain(each_needs(tenants.source, share,
                                 format_bytes(share.disk_bytes) + " of --disk, which is divided as the memory is",
                                 kTenantDiskLeast));
    }
  }
  return shares;
}

}  // namespace rhizome
