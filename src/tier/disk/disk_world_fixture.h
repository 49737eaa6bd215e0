// A disk tier on simulated files that is broken on purpose, and what has to hold whatever was done to it: what is read
// is one of the images that were written under its key, whole; while the process lives, the last one.
//
// Blocks are chains of four; each image is a wire image of the oracle's payload with the version in its first bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/little_endian.h"
#include "block/oracle.h"
#include "codec/image.h"
#include "contract/check.h"
#include "machine/clock.h"
#include "machine/simulated_files.h"
#include "telemetry/log.h"
#include "tier/disk/disk_tier.h"

namespace rhizome {

inline constexpr uint32_t kChainBlocks = 4;
inline constexpr uint32_t kBlockTokens = 16;
inline constexpr uint32_t kPayloadBytes = 6000;
inline constexpr uint64_t kCaseWaitNs = 30'000'000'000;

inline const Digest& world_keyspace() {
  static const Digest kDigest = sha256(std::as_bytes(std::span("the disk's world")));
  return kDigest;
}

inline std::vector<Token> tokens_of(uint32_t number) {
  std::vector<Token> tokens(kBlockTokens);
  for (uint32_t i = 0; i < kBlockTokens; ++i)
    tokens[i] = number * 1000 + i;
  return tokens;
}

inline BlockKey parent_of(uint32_t number);
inline BlockKey key_of(uint32_t number) {
  return next_key(parent_of(number), tokens_of(number));
}
inline BlockKey parent_of(uint32_t number) {
  return number % kChainBlocks == 0 ? root_key(world_keyspace()) : key_of(number - 1);
}

inline std::vector<std::byte> image_of(uint32_t number, uint32_t version) {
  const std::vector<Token> tokens = tokens_of(number);
  ImageContent content;
  content.geometry.element_type = ElementType::kOpaque;
  content.geometry.layout = ImageLayout::kOpaque;
  content.geometry.tokens_count = kBlockTokens;
  content.geometry.opaque_bytes = kPayloadBytes;
  content.identity = {world_keyspace(), parent_of(number), number % kChainBlocks * kBlockTokens, tokens};
  content.key = key_of(number);
  std::vector<std::byte> raw(kPayloadBytes);
  std::vector<Token> prefix = tokens;
  prefix.push_back(version);
  fill_oracle(raw, world_keyspace(), prefix);
  store_little(raw.data(), version);
  CodecWorkspace workspace;
  std::vector<std::byte> image(image_room_bytes(content.geometry, Codec::kRaw));
  const Result<size_t> bytes = encode_image(content, Codec::kRaw, ImageDigest::kLeaveOut, raw, workspace, image);
  RHIZOME_CHECK(bytes.has_value());
  image.resize(*bytes);
  return image;
}

inline size_t world_image_bytes() {
  static const size_t kBytes = image_of(0, 0).size();
  return kBytes;
}

// The version whose image it is, whole; nothing: it is none of the block's.
inline std::optional<uint32_t> version_of(uint32_t number, std::span<const std::byte> image) {
  const size_t head = world_image_bytes() - kPayloadBytes;
  if (image.size() < head + sizeof(uint32_t)) return std::nullopt;
  const uint32_t version = load_little<uint32_t>(image.data() + head);
  const std::vector<std::byte> expected = image_of(number, version);
  const bool is_same = std::equal(expected.begin(), expected.end(), image.begin(), image.end());
  return is_same ? std::optional(version) : std::nullopt;
}

struct WorldCounts {
  uint64_t cases = 0;
  uint64_t wrong_bytes = 0;
  uint64_t hangs = 0;
  uint64_t lost = 0;  // what had to be there and was not
};

class DiskWorld {
 public:
  static constexpr uint64_t kBytesMax = 512 << 10;
  static constexpr const char* kDirectory = "/disk";

  explicit DiskWorld(uint64_t seed, WorldCounts& counts, const RecordChecks& checks = {})
      : files_(seed), counts_(counts), checks_(checks) {
    set_log_level(LogLevel::kSilent);
  }

  SimulatedFiles& files() { return files_; }
  DiskTier& tier() { return *tier_; }
  bool is_open() const { return tier_ != nullptr; }
  ManualClock& clock() { return clock_; }

  Status open() {
    last_.clear();
    Result<std::unique_ptr<DiskTier>> tier = DiskTier::open({.directory = kDirectory,
                                                             .bytes_max = kBytesMax,
                                                             .append_bytes = 32 << 10,
                                                             .files = &files_,
                                                             .clock = &clock_,
                                                             .checks = checks_});
    if (!tier) return fail(tier.error());
    tier_ = std::move(*tier);
    return {};
  }
  void close() { tier_.reset(); }

  TierCompletion run(TierRequest request) {
    TierCompletion done;
    request.tag = ++tag_;
    if (tier_->submit(std::span(&request, 1)) == 1 && tier_->collect(std::span(&done, 1), kCaseWaitNs) == 1)
      return done;
    ++counts_.hangs;
    // The tier still has the buffers: nothing can go on from here.
    RHIZOME_CHECK(counts_.hangs == 0);
    return done;
  }

  bool write(uint32_t number) {
    const uint32_t version = ++version_;
    written_[number].insert(version);
    const std::vector<std::byte> image = image_of(number, version);
    const bool is_done =
        run({.operation = TierOperation::kWrite, .key = key_of(number), .from = image}).outcome == TierOutcome::kDone;
    if (is_done) last_[number] = version;
    return is_done;
  }
  void remove(uint32_t number) {
    if (run({.operation = TierOperation::kRemove, .key = key_of(number)}).outcome == TierOutcome::kDone)
      last_[number] = 0;
  }

  // True: it was there. Counts what must not be.
  bool read(uint32_t number) {
    std::vector<std::byte> into(world_image_bytes());
    const TierCompletion done = run({.operation = TierOperation::kRead, .key = key_of(number), .into = into});
    if (done.outcome != TierOutcome::kDone) return false;
    const std::optional<uint32_t> version = version_of(number, std::span(into).subspan(done.offset).first(done.bytes));
    const bool was_written = version && written_[number].contains(*version);
    // What was written in this life is not followed by something older.
    const bool is_last = !last_.contains(number) || (version && *version == last_[number]);
    if (!was_written || !is_last) ++counts_.wrong_bytes;
    return true;
  }

  // All keys that were ever written; how many are there.
  size_t read_all() {
    size_t there = 0;
    for (const auto& [number, versions] : written_)
      there += read(number);
    return there;
  }

  // What recovery tells is what was written, parents first.
  size_t check_recovered() {
    std::set<uint32_t> seen;
    tier_->for_each_recovered(world_keyspace(), [&](const RecoveredBlock& block) {
      const uint32_t number = block.tokens.empty() ? 0 : block.tokens[0] / 1000;
      const std::vector<Token> tokens = tokens_of(number);
      const bool is_right = block.key == key_of(number) && block.parent == parent_of(number) &&
                            std::equal(tokens.begin(), tokens.end(), block.tokens.begin(), block.tokens.end()) &&
                            block.position == number % kChainBlocks * kBlockTokens && written_.contains(number) &&
                            (number % kChainBlocks == 0 || seen.contains(number - 1)) && seen.insert(number).second;
      if (!is_right) ++counts_.wrong_bytes;
    });
    return seen.size();
  }

  // After whatever was done: it can be opened, gives nothing that is wrong, keeps what it must, and works again.
  void check_after(std::span<const uint32_t> must_be_there) {
    close();
    if (!open()) {
      ++counts_.lost;
      return;
    }
    read_all();
    check_recovered();
    for (const uint32_t number : must_be_there)
      counts_.lost += !read(number);
    constexpr uint32_t kFresh = 9000;
    for (uint32_t number = kFresh; number < kFresh + 4; ++number)
      counts_.lost += !write(number);
    counts_.lost += !tier_->flush();
    for (uint32_t number = kFresh; number < kFresh + 4; ++number)
      counts_.lost += !read(number);
    close();
    if (!open()) {
      ++counts_.lost;
      return;
    }
    for (uint32_t number = kFresh; number < kFresh + 4; ++number)
      counts_.lost += !read(number);
    read_all();
    close();
  }

 private:
  SimulatedFiles files_;
  ManualClock clock_{1'000'000};
  WorldCounts& counts_;
  const RecordChecks checks_;
  std::unique_ptr<DiskTier> tier_;
  std::map<uint32_t, std::set<uint32_t>> written_;
  std::map<uint32_t, uint32_t> last_;  // in this life of the process; 0: removed
  uint32_t version_ = 0;
  uint64_t tag_ = 0;
};

}  // namespace rhizome
