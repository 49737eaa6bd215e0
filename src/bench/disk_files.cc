#include "bench/disk_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "block/oracle.h"
#include "codec/image.h"
#include "contract/check.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kWaitNs = 60'000'000'000;
constexpr size_t kCollected = 64;

const Digest& keyspace() {
  static const Digest kDigest = sha256(std::as_bytes(std::span("bench disk")));
  return kDigest;
}

}  // namespace

DiskImages::DiskImages(uint64_t bytes) : bytes_(bytes) {
  raw_.resize(bytes - kImageHeaderBytes - identity_bytes(kImageTokens));
  fill_oracle(raw_, keyspace(), {});
}

std::vector<Token> DiskImages::tokens_of(uint32_t number) const {
  std::vector<Token> tokens(kImageTokens);
  for (uint32_t i = 0; i < kImageTokens; ++i)
    tokens[i] = number * kImageTokens + i;
  return tokens;
}

BlockKey DiskImages::key(uint32_t number) {
  while (keys_.size() <= number) {
    const uint32_t next = static_cast<uint32_t>(keys_.size());
    keys_.push_back(next_key(next == 0 ? root_key(keyspace()) : keys_.back(), tokens_of(next)));
  }
  return keys_[number];
}

std::span<const std::byte> DiskImages::image(uint32_t number) {
  const std::vector<Token> tokens = tokens_of(number);
  ImageContent content;
  content.geometry.element_type = ElementType::kOpaque;
  content.geometry.layout = ImageLayout::kOpaque;
  content.geometry.tokens_count = kImageTokens;
  content.geometry.opaque_bytes = static_cast<uint32_t>(raw_.size());
  content.key = key(number);
  content.identity = {keyspace(), number == 0 ? root_key(keyspace()) : key(number - 1), number * kImageTokens, tokens};
  CodecWorkspace workspace;
  image_.resize(image_room_bytes(content.geometry, Codec::kRaw));
  const Result<size_t> size = encode_image(content, Codec::kRaw, ImageDigest::kLeaveOut, raw_, workspace, image_);
  RHIZOME_CHECK(size.has_value() && *size == bytes_);
  return std::span<const std::byte>(image_).first(*size);
}

bool DiskImages::is_right(uint32_t number, std::span<const std::byte> bytes) {
  const std::span<const std::byte> expected = image(number);
  return std::equal(expected.begin(), expected.end(), bytes.begin(), bytes.end());
}

ReadPlaces::ReadPlaces(std::span<std::byte> memory, size_t place_bytes) {
  for (size_t at = 0; at + place_bytes <= memory.size(); at += place_bytes)
    free_.push_back(memory.subspan(at, place_bytes));
}

std::span<std::byte> ReadPlaces::take(uint64_t tag) {
  RHIZOME_CHECK(!free_.empty());
  // The one that was given back longest ago.
  const std::span<std::byte> place = free_.front();
  free_.pop_front();
  RHIZOME_CHECK(taken_.emplace(tag, place).second);
  return place;
}

void ReadPlaces::give_back(uint64_t tag) {
  const auto found = taken_.find(tag);
  RHIZOME_CHECK(found != taken_.end());
  free_.push_back(found->second);
  taken_.erase(found);
}

Result<PlainFile> PlainFile::open(const std::vector<std::string>& paths, std::span<std::byte> memory) {
  PlainFile plain;
  RingOptions options{.kind = RingKind::kAuto, .files = {}, .memory = {memory}, .bytes_in_flight_max = 16 * kMiB};
  for (const std::string& path : paths) {
    Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kReadDirect);
    if (!file) return fail(file.error());
    options.files.push_back(file->get());
    plain.files_.push_back(std::move(*file));
  }
  Result<std::unique_ptr<FileRing>> ring = FileRing::create(options);
  if (!ring) return fail(ring.error());
  plain.ring_ = std::move(*ring);
  return plain;
}

Result<PlainFile> PlainFile::create(const std::string& path, uint64_t bytes, std::span<std::byte> memory) {
  PlainFile plain;
  Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kCreateDirect);
  if (!file) return fail(file.error());
  plain.files_.push_back(std::move(*file));
  if (const Status done = plain.file().allocate(bytes); !done) return fail(done.error());
  Result<std::unique_ptr<FileRing>> ring =
      FileRing::create({.kind = RingKind::kAuto, .files = {&plain.file()}, .memory = {memory}});
  if (!ring) return fail(ring.error());
  plain.ring_ = std::move(*ring);
  const uint64_t step = std::min<uint64_t>(4 * kMiB, memory.size());
  std::vector<RingOperation> writes;
  for (uint64_t at = 0; at < bytes; at += step)
    writes.push_back({.tag = at,
                      .action = RingAction::kWrite,
                      .file = 0,
                      .offset = at,
                      .bytes = memory.first(std::min(step, bytes - at))});
  if (const Status done = plain.run(writes, 2); !done) return fail(done.error());
  if (const Status done = plain.file().sync_data(); !done) return fail(done.error());
  return plain;
}

Status PlainFile::run(std::span<const RingOperation> operations, size_t at_once, ReadPlaces* places) {
  std::array<RingCompletion, kCollected> ended;
  size_t under_way = 0;
  while (!operations.empty() || under_way > 0) {
    while (!operations.empty() && under_way < at_once) {
      RingOperation operation = operations.front();
      if (places != nullptr) operation.bytes = places->take(operation.tag).first(operation.bytes.size());
      ring_->submit(operation);
      operations = operations.subspan(1);
      ++under_way;
    }
    const size_t count = ring_->collect(ended, kWaitNs);
    for (const RingCompletion& one : std::span(ended).first(count)) {
      if (!one.is_ok) return fail(one.error);
      if (places != nullptr) places->give_back(one.tag);
    }
    under_way -= count;
  }
  return {};
}

Status run_requests(DiskTier& tier, std::span<const TierRequest> requests, size_t at_once,
                    std::vector<TierCompletion>& done, ReadPlaces* places) {
  std::array<TierCompletion, kCollected> ended;
  std::vector<TierRequest> next;
  size_t under_way = 0;
  while (!requests.empty() || under_way > 0) {
    const std::span<const TierRequest> wanted = requests.first(std::min(requests.size(), at_once - under_way));
    next.assign(wanted.begin(), wanted.end());
    for (TierRequest& request : next)
      if (places != nullptr) request.into = places->take(request.tag);
    const size_t taken = tier.submit(next);
    for (const TierRequest& request : std::span(next).subspan(taken))
      if (places != nullptr) places->give_back(request.tag);
    requests = requests.subspan(taken);
    under_way += taken;
    const size_t count = tier.collect(ended, kWaitNs);
    if (count == 0) return fail(Code::kDeadlineExceeded, "the disk tier does not answer");
    for (const TierCompletion& one : std::span(ended).first(count)) {
      done.push_back(one);
      if (places != nullptr) places->give_back(one.tag);
    }
    under_way -= count;
  }
  return {};
}

}  // namespace rhizome::bench
