// Segments that were right and then were not: the reader says something, reads only what is there, and takes no memory
// for what a header merely claims (the address sanitizer watches).
#include "tier/disk/segment_reader.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/checksum.h"
#include "block/little_endian.h"
#include "machine/temporary_folder.h"
#include "tier/disk/crc32c.h"
#include "tier/disk/disk_world_fixture.h"
#include "tier/disk/record.h"
#include "tier/disk/segment_header.h"

namespace rhizome {
namespace {

class SegmentReaderTest : public testing::Test {
 protected:
  SegmentReaderTest() {
    WorldCounts counts;
    DiskWorld world(3, counts);
    RHIZOME_CHECK(world.open().has_value());
    for (uint32_t number = 0; number < 20; ++number)
      RHIZOME_CHECK(world.write(number));
    world.close();
    sealed_ = world.files().contents(std::string(DiskWorld::kDirectory) + "/" + segment_name(0));
    Result<std::unique_ptr<File>> file = files_.open("/segment-00000", OpenMode::kCreate);
    file_ = std::move(*file);
  }

  Result<SegmentContents> read(const std::vector<std::byte>& bytes) {
    files_.set_contents("/segment-00000", bytes);
    Result<SegmentReader> reader = SegmentReader::create();
    return reader->read(*file_, 0);
  }

  // As if whoever damaged it knew how checksums are made.
  static void mend(std::vector<std::byte>& bytes, size_t at, size_t crc_at) {
    if (bytes.size() >= at + crc_at + 4)
      store_little(bytes.data() + at + crc_at, crc32c(std::span(bytes).subspan(at, crc_at)));
  }

  SimulatedFiles files_{9};
  std::unique_ptr<File> file_;
  std::vector<std::byte> sealed_;
};

TEST_F(SegmentReaderTest, FooterAndScanSayTheSame) {
  const Result<SegmentContents> by_footer = read(sealed_);
  ASSERT_TRUE(by_footer);
  ASSERT_EQ(by_footer->condition, SegmentCondition::kSealed);
  std::vector<std::byte> open = sealed_;
  std::fill(open.end() - static_cast<ptrdiff_t>(kTrailerBytes), open.end(), std::byte{0});
  const Result<SegmentContents> by_scan = read(open);
  ASSERT_TRUE(by_scan);
  ASSERT_EQ(by_scan->condition, SegmentCondition::kUnsealed);
  EXPECT_STREQ(by_scan->footer_fault, "there is no footer");
  EXPECT_EQ(by_scan->data_end, by_footer->data_end);
  const std::vector<SegmentEntry>& a = by_footer->entries.entries();
  const std::vector<SegmentEntry>& b = by_scan->entries.entries();
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GT(a.size(), 10u);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].key, b[i].key);
    EXPECT_EQ(a[i].page, b[i].page);
    EXPECT_EQ(a[i].lsn, b[i].lsn);
    EXPECT_EQ(a[i].image_bytes, b[i].image_bytes);
    EXPECT_EQ(a[i].parent, b[i].parent);
    EXPECT_EQ(a[i].position, b[i].position);
    EXPECT_TRUE(std::ranges::equal(by_footer->entries.tokens(a[i]), by_scan->entries.tokens(b[i])));
  }
}

TEST_F(SegmentReaderTest, NothingThatWasWrittenIsEmpty) {
  EXPECT_EQ(read(std::vector<std::byte>(DiskWorld::kBytesMax / 4))->condition, SegmentCondition::kEmpty);
  EXPECT_EQ(read({})->condition, SegmentCondition::kEmpty);
  std::vector<std::byte> ready(sealed_.size());
  write_segment_header({.segment = 0, .generation = 7, .segment_bytes = ready.size()},
                       std::span(ready).first(kPageBytes));
  EXPECT_EQ(read(ready)->condition, SegmentCondition::kEmpty);
}

// What a file says of itself shall not decide how much memory is taken for it.
TEST(SegmentReader, AFooterThatIsTooLongIsNotRead) {
  const TemporaryFolder folder;
  auto file = real_file_system().open(folder.path("a"), OpenMode::kCreate);
  ASSERT_TRUE(file);
  constexpr uint64_t kBytes = uint64_t{64} << 30;
  ASSERT_TRUE((*file)->truncate(kBytes));
  std::vector<std::byte> page(kPageBytes);
  write_segment_header({.segment = 0, .generation = 7, .segment_bytes = kBytes}, page);
  ASSERT_TRUE((*file)->write_at(0, page));
  SegmentEntries().write_footer(0, 7, kBytes, false, page);
  const std::span<std::byte> trailer = std::span(page).last(kTrailerBytes);
  store_little(trailer.data() + 24, kFooterBytesMax + 1);
  store_little(trailer.data() + 60, crc32c(trailer.first(60)));
  ASSERT_TRUE((*file)->write_at(kBytes - kPageBytes, page));
  Result<SegmentReader> reader = SegmentReader::create();
  ASSERT_TRUE(reader);
  const Result<SegmentContents> contents = reader->read(**file, 0);
  ASSERT_TRUE(contents);
  EXPECT_EQ(contents->condition, SegmentCondition::kEmpty);
  EXPECT_STREQ(contents->footer_fault, "the footer says what cannot be");
}

TEST_F(SegmentReaderTest, EveryCutIsSurvived) {
  for (size_t bytes = 0; bytes < sealed_.size(); bytes += bytes < 9000 ? 61 : 1999) {
    const Result<SegmentContents> contents = read({sealed_.begin(), sealed_.begin() + static_cast<ptrdiff_t>(bytes)});
    ASSERT_TRUE(contents);
    EXPECT_NE(contents->condition, SegmentCondition::kSealed) << "the footer is at the end";
  }
}

TEST_F(SegmentReaderTest, RandomDamageIsSurvived) {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'130;
  std::mt19937_64 random(seed);
  const Result<SegmentContents> right = read(sealed_);
  std::set<std::string> keys;
  for (const SegmentEntry& entry : right->entries.entries())
    keys.insert(entry.key.name());
  const size_t trailer = sealed_.size() - kTrailerBytes;
  const size_t footer = sealed_.size() - right->entries.footer_bytes();
  std::set<SegmentCondition> seen;
  for (int round = 0; round < 1500; ++round) {
    std::vector<std::byte> bytes = sealed_;
    const size_t places[] = {0, kPageBytes, trailer, footer, right->entries.entries()[3].page * kPageBytes};
    const size_t place = places[random() % std::size(places)];
    for (uint64_t left = 1 + random() % 4; left > 0; --left) {
      const size_t at = std::min(bytes.size() - 1, place + random() % 64);
      const uint64_t how = random() % 3;
      bytes[at] = how == 0 ? static_cast<std::byte>(random()) : how == 1 ? std::byte{0xff} : bytes[at] ^ std::byte{1};
    }
    if (random() % 2 == 0) {
      mend(bytes, 0, 60);
      mend(bytes, trailer, 60);
      mend(bytes, kPageBytes, 104);
    }
    const Result<SegmentContents> contents = read(bytes);
    // An offset beyond what a file can have is the file's own refusal.
    if (!contents) continue;
    seen.insert(contents->condition);
    for (const SegmentEntry& entry : contents->entries.entries())
      EXPECT_LE(entry.tokens_first + entry.tokens_count, 20u * kBlockTokens) << "seed " << seed << ", round " << round;
  }
  EXPECT_GE(seen.size(), 4u) << "seed " << seed;
}

TEST(Record, EachCheckFindsWhatItIsFor) {
  const std::vector<std::byte> image = image_of(1, 1);
  std::vector<std::byte> record(record_bytes(image.size()));
  const RecordHead head{
      .segment = 3, .generation = 5, .lsn = 7, .key = key_of(1), .image_bytes = image.size(), .image_checksum = 0};
  const auto write = [&](RecordHead changed) {
    std::copy(image.begin(), image.end(), record.begin() + kRecordHeadBytes);
    changed.image_checksum = checksum(image);
    write_record_head(changed, std::span(record).first<kRecordHeadBytes>());
  };
  write(head);
  EXPECT_EQ(check_record(record, head), std::nullopt);
  const std::optional<RecordHead> parsed = parse_record_head(record);
  EXPECT_EQ(parsed.value_or(RecordHead{}).lsn, 7u);
  const auto expect = [&](RecordCheck check) {
    EXPECT_EQ(check_record(record, head), check) << record_check_name(check);
    RecordChecks all;
    all.skipped.fill(true);
    EXPECT_EQ(check_record(record, head, all), std::nullopt);
    write(head);
  };
  record[0] ^= std::byte{1};
  expect(RecordCheck::kMagic);
  record[100] ^= std::byte{1};
  expect(RecordCheck::kHead);
  RecordHead other = head;
  other.segment = 4;
  write(other);
  expect(RecordCheck::kSegment);
  other = head;
  other.generation = 4;
  write(other);
  expect(RecordCheck::kGeneration);
  other = head;
  other.key = key_of(2);
  write(other);
  expect(RecordCheck::kKey);
  other = head;
  other.image_bytes -= 1;
  write(other);
  expect(RecordCheck::kLength);
  record[kRecordHeadBytes + image.size() - 1] ^= std::byte{1};
  expect(RecordCheck::kImage);
}

// RFC 3720, appendix B.4.
TEST(Crc32c, IsThePublishedOne) {
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eu);
}

}  // namespace
}  // namespace rhizome
