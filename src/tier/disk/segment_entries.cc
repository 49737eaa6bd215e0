#include "tier/disk/segment_entries.h"

#include <algorithm>
#include <cstring>

#include "block/checksum.h"
#include "block/identity.h"
#include "block/little_endian.h"
#include "codec/image_header.h"
#include "contract/check.h"
#include "tier/disk/crc32c.h"
#include "tier/disk/record.h"
#include "tier/disk/segment_header.h"

namespace rhizome {
namespace {

constexpr uint32_t kTrailerMagic = 0x46535a52;
constexpr size_t kCrcAt = 60;
constexpr uint64_t kEntryBytes = 56;
constexpr uint64_t kIdentityBytes = 44;
constexpr uint32_t kHasIdentity = 1;
constexpr uint32_t kIsPartial = 2;
constexpr uint32_t kCanGoOn = 1;

// In the encoding of an identity (block/identity.h).
constexpr size_t kKeyspaceAt = 0;
constexpr size_t kParentAt = 32;
constexpr size_t kPositionAt = 64;
constexpr size_t kCountAt = 68;
constexpr size_t kTokensAt = 72;

uint64_t entry_bytes(bool has_identity, uint64_t tokens_count) {
  return kEntryBytes + (has_identity ? kIdentityBytes + tokens_count * sizeof(Token) : 0);
}

// A plain image whose identity is not encrypted; only its head needs to be there.
std::optional<ImageHeader> header_of(std::span<const std::byte> image) {
  if (image.size() < kImageHeaderBytes + kTokensAt) return std::nullopt;
  const Result<ImageHeader> header = parse_image_header(image.first(kImageHeaderBytes));
  if (!header || header->is_sealed()) return std::nullopt;
  return *header;
}

// Takes fields off a body until it ends.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  bool take(T& value) {
    if (rest_.size() < sizeof(T)) return false;
    value = load_little<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  bool take(Digest& digest) {
    if (rest_.size() < digest.size()) return false;
    std::copy_n(rest_.begin(), digest.size(), digest.begin());
    rest_ = rest_.subspan(digest.size());
    return true;
  }
  bool take(std::span<const std::byte>& out, uint64_t count) {
    if (rest_.size() < count) return false;
    out = rest_.first(count);
    rest_ = rest_.subspan(count);
    return true;
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

bool take_entry(Fields& fields, const std::vector<Digest>& keyspaces, SegmentEntries& into) {
  SegmentEntry entry;
  uint32_t flags = 0;
  if (!fields.take(entry.key.bytes) || !fields.take(entry.lsn) || !fields.take(entry.image_bytes) ||
      !fields.take(entry.page) || !fields.take(flags))
    return false;
  if ((flags & kHasIdentity) == 0) {
    into.add(entry, nullptr);
    return true;
  }
  ImageIdentity identity;
  uint32_t keyspace = 0;
  uint32_t tokens_count = 0;
  if (!fields.take(identity.parent.bytes) || !fields.take(keyspace) || !fields.take(identity.position) ||
      !fields.take(tokens_count) || !fields.take(identity.tokens, uint64_t{tokens_count} * sizeof(Token)) ||
      keyspace >= keyspaces.size())
    return false;
  identity.keyspace = keyspaces[keyspace];
  identity.is_partial = (flags & kIsPartial) != 0;
  into.add(entry, &identity);
  return true;
}

}  // namespace

std::optional<ImageIdentity> identity_of_image(std::span<const std::byte> image, uint64_t image_bytes,
                                               const BlockKey& key) {
  const std::optional<ImageHeader> header = header_of(image);
  if (!header || header->key != key_name(key) || kImageHeaderBytes + uint64_t{header->encoded_bytes} != image_bytes)
    return std::nullopt;
  const std::byte* const at = image.data() + kImageHeaderBytes;
  const uint32_t count = load_little<uint32_t>(at + kCountAt);
  if (count == 0 || count > header->geometry.tokens_count || identity_end(image) > image.size()) return std::nullopt;
  ImageIdentity identity;
  std::memcpy(identity.keyspace.data(), at + kKeyspaceAt, identity.keyspace.size());
  std::memcpy(identity.parent.bytes.data(), at + kParentAt, identity.parent.bytes.size());
  identity.position = load_little<uint32_t>(at + kPositionAt);
  identity.is_partial = header->has(image_flag::kPartial);
  identity.tokens = image.subspan(kImageHeaderBytes + kTokensAt, uint64_t{count} * sizeof(Token));
  return identity;
}

uint64_t identity_end(std::span<const std::byte> image) {
  const std::optional<ImageHeader> header = header_of(image);
  if (!header) return 0;
  return kImageHeaderBytes + identity_bytes(header->geometry.tokens_count);
}

void SegmentEntries::add(const SegmentEntry& entry, const ImageIdentity* identity) {
  SegmentEntry& added = entries_.emplace_back(entry);
  added.has_identity = identity != nullptr;
  body_bytes_ += kEntryBytes;
  if (identity == nullptr) return;
  auto found = std::find(keyspaces_.rbegin(), keyspaces_.rend(), identity->keyspace);
  if (found == keyspaces_.rend()) {
    keyspaces_.push_back(identity->keyspace);
    body_bytes_ += sizeof(Digest);
    found = keyspaces_.rbegin();
  }
  added.keyspace = static_cast<uint32_t>(keyspaces_.rend() - found - 1);
  added.parent = identity->parent;
  added.position = identity->position;
  added.is_partial = identity->is_partial;
  added.tokens_first = tokens_.size();
  added.tokens_count = static_cast<uint32_t>(identity->tokens.size() / sizeof(Token));
  tokens_.resize(tokens_.size() + added.tokens_count);
  if (added.tokens_count > 0)
    std::memcpy(tokens_.data() + added.tokens_first, identity->tokens.data(), identity->tokens.size());
  body_bytes_ += kIdentityBytes + identity->tokens.size();
}

SegmentEntry* SegmentEntries::find_page(uint32_t page) {
  // They are added in the order in which they lie.
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), page,
                                      [](const SegmentEntry& entry, uint32_t at) { return entry.page < at; });
  return found != entries_.end() && found->page == page ? &*found : nullptr;
}

uint64_t SegmentEntries::footer_bytes() const {
  return whole_pages(body_bytes_ + kTrailerBytes);
}

uint64_t SegmentEntries::footer_bytes_with(const ImageIdentity* identity) const {
  const uint64_t more =
      entry_bytes(identity != nullptr, identity == nullptr ? 0 : identity->tokens.size() / sizeof(Token));
  return whole_pages(body_bytes_ + sizeof(Digest) + more + kTrailerBytes);
}

void SegmentEntries::write_footer(uint32_t segment, uint64_t generation, uint64_t data_end, bool can_go_on,
                                  std::span<std::byte> out) const {
  RHIZOME_CHECK(out.size() == footer_bytes());
  std::vector<std::byte> body;
  body.reserve(body_bytes_);
  append_little(body, static_cast<uint32_t>(keyspaces_.size()));
  const auto append = [&body](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      body.push_back(byte);
  };
  for (const Digest& keyspace : keyspaces_)
    append(keyspace);
  uint32_t count = 0;
  for (const SegmentEntry& entry : entries_) {
    if (entry.is_removed) continue;
    ++count;
    append(entry.key.bytes);
    append_little(body, entry.lsn);
    append_little(body, entry.image_bytes);
    append_little(body, entry.page);
    append_little(body, (entry.has_identity ? kHasIdentity : 0) | (entry.is_partial ? kIsPartial : 0));
    if (!entry.has_identity) continue;
    append(entry.parent.bytes);
    append_little(body, entry.keyspace);
    append_little(body, entry.position);
    append_little(body, entry.tokens_count);
    append(std::as_bytes(tokens(entry)));
  }
  RHIZOME_CHECK(body.size() + kTrailerBytes <= out.size());
  std::fill(out.begin(), out.end(), std::byte{0});
  std::copy(body.begin(), body.end(), out.begin());
  // Where the footer begins is found by the length of the body: it may be shorter than there was room for.
  const uint64_t needed = whole_pages(body.size() + kTrailerBytes);
  if (needed < out.size()) {
    std::fill(out.begin(), out.end(), std::byte{0});
    std::copy(body.begin(), body.end(), out.end() - static_cast<ptrdiff_t>(needed));
  }
  const std::span<std::byte> trailer = out.last(kTrailerBytes);
  std::byte* const at = trailer.data();
  store_little(at, kTrailerMagic);
  store_little(at + 4, kDiskFormatVersion);
  store_little(at + 8, segment);
  store_little(at + 12, count);
  store_little(at + 16, generation);
  store_little(at + 24, static_cast<uint64_t>(body.size()));
  store_little(at + 32, data_end);
  store_little(at + 40, checksum(body));
  store_little(at + 48, can_go_on ? kCanGoOn : 0);
  store_little(at + kCrcAt, crc32c(trailer.first(kCrcAt)));
}

uint64_t FooterTrailer::footer_bytes() const {
  return whole_pages(body_bytes + kTrailerBytes);
}

std::optional<FooterTrailer> parse_trailer(std::span<const std::byte> bytes) {
  RHIZOME_CHECK(bytes.size() == kTrailerBytes);
  const std::byte* const at = bytes.data();
  if (load_little<uint32_t>(at) != kTrailerMagic || load_little<uint32_t>(at + kCrcAt) != crc32c(bytes.first(kCrcAt)) ||
      load_little<uint32_t>(at + 4) != kDiskFormatVersion)
    return std::nullopt;
  FooterTrailer trailer;
  trailer.segment = load_little<uint32_t>(at + 8);
  trailer.entries_count = load_little<uint32_t>(at + 12);
  trailer.generation = load_little<uint64_t>(at + 16);
  trailer.body_bytes = load_little<uint64_t>(at + 24);
  trailer.data_end = load_little<uint64_t>(at + 32);
  trailer.body_checksum = load_little<uint64_t>(at + 40);
  trailer.can_go_on = (load_little<uint32_t>(at + 48) & kCanGoOn) != 0;
  return trailer;
}

Result<SegmentEntries> parse_footer_body(const FooterTrailer& trailer, std::span<const std::byte> body) {
  RHIZOME_CHECK(body.size() == trailer.body_bytes);
  if (checksum(body) != trailer.body_checksum) return fail(Code::kDataLoss, "the checksum of a footer is wrong");
  const auto wrong = fail(Code::kDataLoss, "a footer says what cannot be");
  Fields fields(body);
  uint32_t keyspaces_count = 0;
  if (!fields.take(keyspaces_count) || uint64_t{keyspaces_count} * sizeof(Digest) > body.size()) return wrong;
  std::vector<Digest> keyspaces(keyspaces_count);
  for (Digest& keyspace : keyspaces)
    if (!fields.take(keyspace)) return wrong;
  SegmentEntries entries;
  for (uint32_t i = 0; i < trailer.entries_count; ++i) {
    if (!take_entry(fields, keyspaces, entries)) return wrong;
    const SegmentEntry& entry = entries.entries().back();
    const uint64_t begin = uint64_t{entry.page} * kPageBytes;
    if (entry.page == 0 || entry.image_bytes == 0 || begin > trailer.data_end ||
        entry.image_bytes > trailer.data_end - begin || begin + record_bytes(entry.image_bytes) > trailer.data_end)
      return wrong;
    if (i > 0 && entries.entries()[i - 1].page >= entry.page) return wrong;
  }
  if (!fields.is_at_end()) return wrong;
  return entries;
}

}  // namespace rhizome
