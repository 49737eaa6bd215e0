#include "block/identity.h"

#include <algorithm>
#include <cstring>

#include "block/little_endian.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kParentAt = 32;
constexpr size_t kPositionAt = 64;
constexpr size_t kCountAt = 68;
constexpr size_t kTokensAt = 72;

static_assert(kParentAt == sizeof(Digest) && kPositionAt == kParentAt + sizeof(BlockKey));

}  // namespace

size_t identity_bytes(size_t tokens_count) {
  return (kTokensAt + tokens_count * sizeof(Token) + kAlignment - 1) / kAlignment * kAlignment;
}

void encode_identity(const Identity& identity, std::span<std::byte> out) {
  RHIZOME_CHECK(out.size() == identity_bytes(identity.tokens.size()));
  const std::span<const std::byte> tokens = std::as_bytes(identity.tokens);
  std::byte* const at = out.data();
  std::memcpy(at, identity.keyspace.data(), identity.keyspace.size());
  std::memcpy(at + kParentAt, identity.parent.bytes.data(), identity.parent.bytes.size());
  store_little(at + kPositionAt, identity.position);
  store_little(at + kCountAt, static_cast<uint32_t>(identity.tokens.size()));
  std::copy(tokens.begin(), tokens.end(), at + kTokensAt);
  std::fill(out.begin() + static_cast<ptrdiff_t>(kTokensAt + tokens.size()), out.end(), std::byte{0});
}

bool identity_matches(std::span<const std::byte> bytes, const Identity& expected) {
  if (bytes.size() != identity_bytes(expected.tokens.size())) return false;
  const std::span<const std::byte> tokens = std::as_bytes(expected.tokens);
  const std::byte* const at = bytes.data();
  const std::span<const std::byte> padding = bytes.subspan(kTokensAt + tokens.size());
  return std::memcmp(at, expected.keyspace.data(), expected.keyspace.size()) == 0 &&
         std::memcmp(at + kParentAt, expected.parent.bytes.data(), expected.parent.bytes.size()) == 0 &&
         load_little<uint32_t>(at + kPositionAt) == expected.position &&
         load_little<uint32_t>(at + kCountAt) == expected.tokens.size() &&
         std::equal(tokens.begin(), tokens.end(), at + kTokensAt) &&
         std::all_of(padding.begin(), padding.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

Result<IdentityRecord> decode_identity(std::span<const std::byte> bytes, size_t tokens_max) {
  if (bytes.size() < identity_bytes(0)) return fail(Code::kDataLoss, "shorter than an identity");
  const auto count = load_little<uint32_t>(bytes.data() + kCountAt);
  if (count == 0 || count > tokens_max || bytes.size() != identity_bytes(count)) {
    return fail(Code::kDataLoss, "an identity of another length");
  }
  IdentityRecord record;
  std::memcpy(record.keyspace.data(), bytes.data(), record.keyspace.size());
  record.parent = identity_parent(bytes);
  record.position = load_little<uint32_t>(bytes.data() + kPositionAt);
  record.tokens.resize(count);
  std::memcpy(record.tokens.data(), bytes.data() + kTokensAt, count * sizeof(Token));
  if (!identity_matches(bytes, record.identity()))
    return fail(Code::kDataLoss, "an identity with padding that is not zero");
  return record;
}

BlockKey identity_parent(std::span<const std::byte> bytes) {
  RHIZOME_CHECK(bytes.size() >= identity_bytes(0));
  BlockKey parent;
  std::memcpy(parent.bytes.data(), bytes.data() + kParentAt, parent.bytes.size());
  return parent;
}

}  // namespace rhizome
