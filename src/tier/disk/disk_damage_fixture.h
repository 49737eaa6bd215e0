// Damages a segment of a disk tier: each kind in each place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block/identity.h"
#include "tier/disk/crc32c.h"
#include "tier/disk/disk_world_fixture.h"
#include "tier/disk/record.h"
#include "tier/disk/segment_header.h"
#include "tier/disk/segment_reader.h"

namespace rhizome {

enum class Damage { kTorn, kTruncated, kFlipped, kSwapped, kOlder, kRolledBack, kZeroed };
inline constexpr Damage kDamages[] = {Damage::kTorn,  Damage::kTruncated,  Damage::kFlipped, Damage::kSwapped,
                                      Damage::kOlder, Damage::kRolledBack, Damage::kZeroed};
enum class DamagePlace { kRecordHead, kIdentity, kPayload, kWholeRecord, kFooter, kSegmentHeader, kWholeSegment };
inline constexpr DamagePlace kDamagePlaces[] = {
    DamagePlace::kRecordHead, DamagePlace::kIdentity,      DamagePlace::kPayload,     DamagePlace::kWholeRecord,
    DamagePlace::kFooter,     DamagePlace::kSegmentHeader, DamagePlace::kWholeSegment};

inline std::string_view damage_name(Damage damage) {
  constexpr std::string_view kNames[] = {"torn", "truncated", "flipped", "swapped", "older", "rolled back", "zeroed"};
  return kNames[static_cast<size_t>(damage)];
}
inline std::string_view place_name(DamagePlace place) {
  constexpr std::string_view kNames[] = {"record head", "identity",       "payload",      "whole record",
                                         "footer",      "segment header", "whole segment"};
  return kNames[static_cast<size_t>(place)];
}

struct ByteRange {
  uint64_t first = 0;
  uint64_t bytes = 0;
};

// The bytes of one segment file as they are now and as they were a generation ago.
class SegmentSurgery {
 public:
  SegmentSurgery(SimulatedFiles& files, uint32_t segment, std::vector<std::byte> older, uint64_t seed)
      : files_(files), path_(path_of(segment)), older_(std::move(older)), random_(seed) {
    bytes_ = files_.contents(path_);
    const Result<std::unique_ptr<File>> file = files_.open(path_, OpenMode::kRead);
    Result<SegmentReader> reader = SegmentReader::create();
    Result<SegmentContents> contents = reader->read(**file, segment);
    contents_ = std::move(*contents);
  }

  static std::string path_of(uint32_t segment) {
    return std::string(DiskWorld::kDirectory) + "/" + segment_name(segment);
  }

  bool is_sealed() const { return contents_.condition == SegmentCondition::kSealed; }

  void damage(Damage damage, DamagePlace place) {
    const std::vector<SegmentEntry>& entries = contents_.entries.entries();
    const size_t one = random_() % entries.size();
    const size_t other = (one + 1 + random_() % (entries.size() - 1)) % entries.size();
    const ByteRange at = range_of(entries[one], place);
    switch (damage) {
      case Damage::kTorn: {
        const uint64_t half = at.bytes / 2;
        copy(older_, at.first + half, at.first + half, at.bytes - half);
        break;
      }
      case Damage::kTruncated:
        bytes_.resize(at.first + at.bytes / 2);
        break;
      case Damage::kFlipped:
        bytes_[at.first + random_() % at.bytes] ^= static_cast<std::byte>(1 << random_() % 8);
        break;
      case Damage::kSwapped:
        swap(at, range_of(entries[other], place));
        break;
      case Damage::kOlder:
        copy(older_, at.first, at.first, at.bytes);
        break;
      case Damage::kRolledBack:
        roll_back(entries[one], place);
        break;
      case Damage::kZeroed:
        std::fill_n(bytes_.begin() + static_cast<ptrdiff_t>(at.first), at.bytes, std::byte{0});
        break;
    }
    files_.set_contents(path_, bytes_);
  }

 private:
  ByteRange range_of(const SegmentEntry& entry, DamagePlace place) const {
    const uint64_t record = uint64_t{entry.page} * kPageBytes;
    const uint64_t image = record + kRecordHeadBytes;
    const uint64_t identity = image + kImageHeaderBytes;
    const uint64_t identity_size = identity_bytes(kBlockTokens);
    const uint64_t footer_bytes = contents_.entries.footer_bytes();
    switch (place) {
      case DamagePlace::kRecordHead:
        return {record, kRecordHeadBytes};
      case DamagePlace::kIdentity:
        return {identity, identity_size};
      case DamagePlace::kPayload:
        return {identity + identity_size, entry.image_bytes - kImageHeaderBytes - identity_size};
      case DamagePlace::kWholeRecord:
        return {record, record_bytes(entry.image_bytes)};
      case DamagePlace::kFooter:
        return {contents_.header.segment_bytes - footer_bytes, footer_bytes};
      case DamagePlace::kSegmentHeader:
        return {0, kSegmentHeaderBytes};
      case DamagePlace::kWholeSegment:
        return {0, contents_.header.segment_bytes};
    }
    return {};
  }

  void copy(const std::vector<std::byte>& from, uint64_t from_at, uint64_t at, uint64_t count) {
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_at), count, bytes_.begin() + static_cast<ptrdiff_t>(at));
  }

  // What there is only one of in a segment is swapped with another segment's.
  void swap(const ByteRange& a, const ByteRange& b) {
    if (a.first != b.first) {
      std::swap_ranges(bytes_.begin() + static_cast<ptrdiff_t>(a.first),
                       bytes_.begin() + static_cast<ptrdiff_t>(a.first + a.bytes),
                       bytes_.begin() + static_cast<ptrdiff_t>(b.first));
      return;
    }
    for (const std::string& path : files_.paths()) {
      if (path == path_) continue;
      std::vector<std::byte> other = files_.contents(path);
      std::swap_ranges(bytes_.begin() + static_cast<ptrdiff_t>(a.first),
                       bytes_.begin() + static_cast<ptrdiff_t>(a.first + a.bytes),
                       other.begin() + static_cast<ptrdiff_t>(a.first));
      files_.set_contents(path, other);
      return;
    }
  }

  // The number alone, with a checksum that is right; of a record with what was there in that generation.
  void roll_back(const SegmentEntry& entry, DamagePlace place) {
    const ByteRange at = range_of(entry, place);
    if (place == DamagePlace::kFooter) return lower(contents_.header.segment_bytes - kTrailerBytes + 16, 60, 16);
    if (place == DamagePlace::kSegmentHeader) return lower(16, 60, 16);
    if (place == DamagePlace::kRecordHead) return lower(at.first + 8, 104, 8);
    if (place == DamagePlace::kWholeSegment) {
      copy(older_, 0, 0, kPageBytes);
      return;
    }
    copy(older_, at.first, at.first, at.bytes);
  }

  // Of a head that begins `field_at` bytes before the number, with its CRC at `crc_at`.
  void lower(uint64_t number_at, uint64_t crc_at, uint64_t field_at) {
    const uint64_t begin = number_at - field_at;
    std::byte* const head = bytes_.data() + begin;
    store_little(bytes_.data() + number_at, load_little<uint64_t>(bytes_.data() + number_at) - 1);
    store_little(head + crc_at, crc32c(std::span(head, crc_at)));
  }

  SimulatedFiles& files_;
  const std::string path_;
  const std::vector<std::byte> older_;
  std::mt19937_64 random_;
  std::vector<std::byte> bytes_;
  SegmentContents contents_;
};

// Two rounds of the same blocks, so that a segment's older generation has older versions of the same blocks in the same
// places; then the damage, while the store is open or closed, and everything is read.
inline void run_damage(Damage damage, DamagePlace place, bool is_live, uint64_t seed, WorldCounts& counts,
                       const RecordChecks& checks) {
  DiskWorld world(seed, counts, checks);
  ASSERT_TRUE(world.open());
  constexpr uint32_t kSegments = 4;
  constexpr uint32_t kBlocks = 60;  // four segments of fifteen
  const auto write_round = [&] {
    for (uint32_t number = 0; number < kBlocks; ++number)
      ASSERT_TRUE(world.write(number));
    ASSERT_TRUE(world.tier().flush());
  };
  write_round();
  std::vector<std::vector<std::byte>> older;
  for (uint32_t segment = 0; segment < kSegments; ++segment)
    older.push_back(world.files().contents(SegmentSurgery::path_of(segment)));
  write_round();
  ASSERT_TRUE(world.tier().flush());
  world.read_all();
  if (!is_live) world.close();
  std::vector<uint32_t> sealed;
  for (uint32_t segment = 0; segment < kSegments; ++segment) {
    if (SegmentSurgery(world.files(), segment, {}, seed).is_sealed()) sealed.push_back(segment);
  }
  ASSERT_FALSE(sealed.empty());
  const uint32_t segment = sealed[seed % sealed.size()];
  SegmentSurgery(world.files(), segment, older[segment], seed).damage(damage, place);
  ++counts.cases;
  if (is_live) world.read_all();
  world.check_after({});
}

}  // namespace rhizome
