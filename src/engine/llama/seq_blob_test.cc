#include "engine/llama/seq_blob.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "engine/llama/test_blob.h"

namespace rhizome {
namespace {

std::vector<std::vector<int32_t>> same_positions(const BlobShape& shape, const std::vector<int32_t>& positions) {
  return std::vector<std::vector<int32_t>>(shape.sections.size(), positions);
}

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code;
}

std::vector<std::byte> payload_of(const BlobReader& reader, const BlobShape& shape, uint32_t first, uint32_t tokens,
                                  bool& found) {
  std::vector<std::byte> payload(shape.payload_bytes(tokens));
  found = reader.copy_payload(first, tokens, payload);
  return payload;
}

void expect_payload(const std::vector<std::byte>& blob, const BlobShape& shape, uint32_t first, uint32_t tokens) {
  const auto reader = BlobReader::parse(blob, shape);
  ASSERT_TRUE(reader);
  bool found = false;
  const auto payload = payload_of(*reader, shape, first, tokens, found);
  EXPECT_TRUE(found);
  EXPECT_EQ(payload, expected_payload(shape, first, tokens));
}

void expect_same_shape(const BlobShape& found, const BlobShape& expected) {
  EXPECT_EQ(found.streams, expected.streams);
  ASSERT_EQ(found.sections.size(), expected.sections.size());
  for (size_t s = 0; s < found.sections.size(); ++s) {
    EXPECT_EQ(found.sections[s].window, expected.sections[s].window);
    EXPECT_EQ(found.sections[s].transposed, expected.sections[s].transposed);
    EXPECT_EQ(found.sections[s].layers, expected.sections[s].layers);
  }
  EXPECT_EQ(found.layout(16), expected.layout(16));
}

TEST(SeqBlobDiscover, LearnsEveryShape) {
  for (const NamedShape& each : all_shapes()) {
    SCOPED_TRACE(each.name);
    for (uint32_t stream = 0; stream < each.shape.streams; ++stream) {
      const auto blob = make_blob(each.shape, same_positions(each.shape, {0, 1}), stream);
      const auto found = discover_blob_shape(blob.bytes, 2);
      ASSERT_TRUE(found);
      expect_same_shape(*found, each.shape);
    }
  }
}

TEST(SeqBlobDiscover, RefusesWhatIsNotAWholeBlobOfThatManyCells) {
  const BlobShape shape = all_shapes().front().shape;
  const auto blob = make_blob(shape, {{0, 1}}).bytes;
  ASSERT_TRUE(discover_blob_shape(blob, 2));
  EXPECT_EQ(code_of(discover_blob_shape({}, 2)), Code::kUnimplemented);
  EXPECT_FALSE(discover_blob_shape(blob, 1));
  EXPECT_FALSE(discover_blob_shape(blob, 3));
  // Cut off behind the keys it is the blob of a model that has no values, which is a shape, too.
  const size_t keys_end = make_blob(all_shapes()[2].shape, {{0, 1}}).bytes.size();
  for (size_t length = 0; length < blob.size(); ++length) {
    EXPECT_EQ(discover_blob_shape(std::span(blob).first(length), 2).has_value(), length == keys_end) << length;
  }
  auto longer = blob;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(discover_blob_shape(longer, 2));
  auto other_magic = blob;
  other_magic[0] ^= std::byte{1};
  EXPECT_FALSE(discover_blob_shape(other_magic, 2));
}

TEST(SeqBlobDiscover, RefusesThreeSectionsAndTwoFullStreams) {
  TestSection dense;
  const BlobShape three = make_shape(1, {dense, dense, dense});
  EXPECT_FALSE(discover_blob_shape(make_blob(three, same_positions(three, {0, 1})).bytes, 2));

  // Both streams of a cache claim the sequence's cells.
  const BlobShape one = make_shape(1, {dense});
  const auto blob = make_blob(one, {{0, 1}}).bytes;
  auto twice = std::vector<std::byte>(blob.begin(), blob.begin() + 8);
  TestBlobBuilder streams;
  streams.put<uint32_t>(2);
  const auto count = streams.take().bytes;
  twice.insert(twice.end(), count.begin(), count.end());
  twice.insert(twice.end(), blob.begin() + 12, blob.end());
  twice.insert(twice.end(), blob.begin() + 12, blob.end());
  EXPECT_FALSE(discover_blob_shape(twice, 2));
}

TEST(SeqBlobShape, CountsPayloadBytesAndNamesEveryPart) {
  TestSection dense;
  TestSection window;
  window.window = true;
  window.transposed = true;
  window.layers = 1;
  const BlobShape shape = make_shape(1, {dense, window});
  EXPECT_EQ(shape.payload_bytes(1), 2 * (12 + 8) + 12 + 8U);
  EXPECT_EQ(shape.payload_bytes(16), 16 * 60U);
  const Layout layout = shape.layout(16);
  EXPECT_EQ(layout.block_tokens, 16U);
  EXPECT_EQ(layout.payload_bytes(), 16 * 60U);
  ASSERT_EQ(layout.parts.size(), 6U);
  const auto kind = LayoutPart::Kind::kValue;
  EXPECT_EQ(layout.parts[1], (LayoutPart{kind, 0, 0, 0, 8, 8}));
  EXPECT_EQ(layout.parts[2], (LayoutPart{LayoutPart::Kind::kKey, 0, 0, 1, 1, 12}));
  EXPECT_EQ(layout.parts[5], (LayoutPart{kind, 1, 1, 0, 8, 8}));
}

TEST(SeqBlob, WritesWhatTheFormatSays) {
  TestSection section;
  section.layers = 1;
  section.key_bytes = 2;
  section.value_bytes = 1;
  const BlobShape shape = make_shape(2, {section});
  const BlobWriter writer(shape, 1, 7, 2, 0);
  const std::vector<std::byte> first{std::byte{0xa0}, std::byte{0xa1}, std::byte{0xb0}};
  const std::vector<std::byte> second{std::byte{0xc0}, std::byte{0xc1}, std::byte{0xd0}};
  const std::span<const std::byte> payloads[] = {first, second};
  std::vector<std::byte> blob(writer.bytes());
  writer.write(payloads, blob);
  const uint8_t golden[] = {0xd8, 0x3c, 0x14, 0xaf, 0, 0, 0, 0,              // magic, sequence
                            2,    0,    0,    0,    2, 0, 0, 0,              // two streams, two cells in the first
                            7,    0,    0,    0,    1, 0, 0, 0, 0, 0, 0, 0,  // position 7 of one sequence
                            8,    0,    0,    0,    1, 0, 0, 0, 0, 0, 0, 0,  // position 8
                            0,    0,    0,    0,    1, 0, 0, 0,              // V in rows, one layer
                            1,    0,    0,    0,    2, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0xa1,  // K: type 1, rows of 2 bytes
                            0xc0, 0xc1, 8,    0,    0, 0, 1, 0, 0, 0, 0, 0, 0,    0,
                            0xb0, 0xd0,            // V: type 8, rows of 1 byte
                            0,    0,    0,    0};  // nothing in the second stream
  ASSERT_EQ(blob.size(), sizeof golden);
  EXPECT_EQ(std::memcmp(blob.data(), golden, sizeof golden), 0);
}

TEST(SeqBlob, WritesBlocksThatParseToTheSamePayloads) {
  constexpr uint32_t kBlock = 4;
  for (const NamedShape& each : all_shapes()) {
    for (const uint32_t first : {0U, 4U, 400U}) {
      for (const uint32_t blocks : {1U, 3U}) {
        SCOPED_TRACE(each.name);
        std::vector<std::vector<std::byte>> payloads;
        std::vector<std::span<const std::byte>> views;
        for (uint32_t b = 0; b < blocks; ++b)
          payloads.push_back(expected_payload(each.shape, first + b * kBlock, kBlock));
        views.assign(payloads.begin(), payloads.end());
        const BlobWriter writer(each.shape, kBlock, first, blocks, 0);
        std::vector<std::byte> blob(writer.bytes(), std::byte{0xee});
        writer.write(views, blob);
        for (uint32_t b = 0; b < blocks; ++b)
          expect_payload(blob, each.shape, first + b * kBlock, kBlock);
        expect_payload(blob, each.shape, first + 1, blocks * kBlock - 1);
        // And it is the blob that was put together by hand, but for the sequence's number.
        auto by_hand = make_blob(
            each.shape, same_positions(each.shape, positions_from(static_cast<int32_t>(first), blocks * kBlock)));
        for (size_t i = 0; i < by_hand.bytes.size(); ++i) {
          if (by_hand.fields[i] == BlobField::kSequence) by_hand.bytes[i] = std::byte{0};
        }
        EXPECT_EQ(blob, by_hand.bytes);
      }
    }
  }
}

TEST(SeqBlob, LeavesOutWhatTheWindowHasPassed) {
  constexpr uint32_t kBlock = 4;
  for (const NamedShape& each : all_shapes()) {
    const BlobShape& shape = each.shape;
    if (shape.sections.size() != 2) continue;
    SCOPED_TRACE(each.name);
    std::vector<std::vector<std::byte>> payloads;
    for (uint32_t b = 2; b < 5; ++b)
      payloads.push_back(expected_payload(shape, b * kBlock, kBlock));
    const std::vector<std::span<const std::byte>> views(payloads.begin(), payloads.end());
    // From where the window's rows are needed, and how many of the blocks 2, 3 and 4 have them.
    const std::pair<uint32_t, uint32_t> cases[] = {{0, 3}, {8, 3}, {12, 2}, {16, 1}, {20, 0}, {400, 0}};
    for (const auto& [window_from, with_window] : cases) {
      SCOPED_TRACE(window_from);
      const BlobWriter writer(shape, kBlock, 2 * kBlock, 3, window_from);
      std::vector<std::byte> blob(writer.bytes());
      writer.write(views, blob);
      auto positions = same_positions(shape, positions_from(8, 12));
      positions[1] = positions_from(static_cast<int32_t>(20 - with_window * kBlock), with_window * kBlock);
      EXPECT_EQ(blob.size(), make_blob(shape, positions).bytes.size());
      const auto reader = BlobReader::parse(blob, shape);
      ASSERT_TRUE(reader);
      for (uint32_t b = 2; b < 5; ++b) {
        bool found = false;
        const auto payload = payload_of(*reader, shape, b * kBlock, kBlock, found);
        EXPECT_EQ(found, b >= 5 - with_window) << b;
        if (found) {
          EXPECT_EQ(payload, expected_payload(shape, b * kBlock, kBlock));
        }
      }
    }
  }
}

TEST(SeqBlobReader, FindsRowsWhateverTheOrderOfCells) {
  const uint32_t seed = 20;
  std::mt19937 random(seed);
  for (const NamedShape& each : all_shapes()) {
    SCOPED_TRACE(each.name + ", seed " + std::to_string(seed));
    for (int round = 0; round < 20; ++round) {
      auto cells = positions_from(100, 24);
      std::shuffle(cells.begin(), cells.end(), random);
      auto positions = same_positions(each.shape, cells);
      std::shuffle(positions.back().begin(), positions.back().end(), random);
      const auto blob = make_blob(each.shape, positions, each.shape.streams - 1).bytes;
      expect_payload(blob, each.shape, 100, 24);
      expect_payload(blob, each.shape, 100 + random() % 8, 16);
    }
  }
}

TEST(SeqBlobReader, SaysWhenARowIsMissing) {
  const BlobShape shape = all_shapes().front().shape;
  bool found = true;
  for (const std::vector<int32_t>& cells : {std::vector<int32_t>{4, 5, 6, 7}, std::vector<int32_t>{7, 6, 5, 4}}) {
    const auto blob = make_blob(shape, {cells}).bytes;
    const auto reader = BlobReader::parse(blob, shape);
    ASSERT_TRUE(reader);
    payload_of(*reader, shape, 4, 4, found);
    EXPECT_TRUE(found);
    for (const uint32_t first : {0U, 3U, 5U, 8U, 400U}) {
      payload_of(*reader, shape, first, 4, found);
      EXPECT_FALSE(found) << first;
    }
  }
  const auto holed = make_blob(shape, {{4, 5, 7, 8}}).bytes;
  const auto reader = BlobReader::parse(holed, shape);
  ASSERT_TRUE(reader);
  payload_of(*reader, shape, 4, 2, found);
  EXPECT_TRUE(found);
  payload_of(*reader, shape, 4, 4, found);
  EXPECT_FALSE(found);
}

TEST(SeqBlobReader, RefusesPositionsTwiceAndBelowZero) {
  const BlobShape shape = all_shapes().front().shape;
  EXPECT_TRUE(BlobReader::parse(make_blob(shape, {{3, 1}}).bytes, shape));
  EXPECT_EQ(code_of(BlobReader::parse(make_blob(shape, {{3, 3}}).bytes, shape)), Code::kDataLoss);
  EXPECT_FALSE(BlobReader::parse(make_blob(shape, {{3, 1, 3}}).bytes, shape));
  EXPECT_FALSE(BlobReader::parse(make_blob(shape, {{-1, 0}}).bytes, shape));
}

TEST(SeqBlobReader, RefusesTheBlobOfAnyOtherShape) {
  const auto shapes = all_shapes();
  for (const NamedShape& written : shapes) {
    const auto blob = make_blob(written.shape, same_positions(written.shape, positions_from(0, 8))).bytes;
    for (const NamedShape& read : shapes) {
      SCOPED_TRACE(written.name + " read as " + read.name);
      EXPECT_EQ(BlobReader::parse(blob, read.shape).has_value(), written.name == read.name);
    }
  }
  TestSection section;
  const auto blob = make_blob(make_shape(1, {section}), {positions_from(0, 8)}).bytes;
  TestSection wider = section;
  wider.key_bytes = 13;
  EXPECT_FALSE(BlobReader::parse(blob, make_shape(1, {wider})));
  BlobShape other_type = make_shape(1, {section});
  other_type.sections[0].parts[3].type = 9;
  EXPECT_FALSE(BlobReader::parse(blob, other_type));
}

TEST(SeqBlobReader, RefusesEveryCutAndEveryByteTooMany) {
  for (const NamedShape& each : all_shapes()) {
    SCOPED_TRACE(each.name);
    auto blob = make_blob(each.shape, same_positions(each.shape, positions_from(0, 8))).bytes;
    ASSERT_TRUE(BlobReader::parse(blob, each.shape));
    for (size_t length = 0; length < blob.size(); ++length) {
      const std::vector<std::byte> cut(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(length));
      ASSERT_EQ(code_of(BlobReader::parse(cut, each.shape)), Code::kDataLoss) << length;
    }
    for (const std::byte extra : {std::byte{0}, std::byte{1}, std::byte{0xff}}) {
      blob.push_back(extra);
      ASSERT_EQ(code_of(BlobReader::parse(blob, each.shape)), Code::kDataLoss);
    }
  }
}

// Every value of every byte that is no row: the structure must be refused, a position must not pass for another one,
// and the sequence's number means nothing.
TEST(SeqBlobReader, NoHeaderByteCanBeWrong) {
  for (const NamedShape& each : all_shapes()) {
    SCOPED_TRACE(each.name);
    const auto original = make_blob(each.shape, same_positions(each.shape, positions_from(300, 4)));
    for (size_t at = 0; at < original.bytes.size(); ++at) {
      if (original.fields[at] == BlobField::kRow) continue;
      auto blob = original.bytes;
      for (unsigned flip = 1; flip < 256; ++flip) {
        blob[at] = original.bytes[at] ^ static_cast<std::byte>(flip);
        const auto reader = BlobReader::parse(blob, each.shape);
        bool found = false;
        switch (original.fields[at]) {
          case BlobField::kStructure:
            ASSERT_EQ(code_of(reader), Code::kDataLoss) << at << " ^ " << flip;
            break;
          case BlobField::kPosition:
            if (reader) payload_of(*reader, each.shape, 300, 4, found);
            ASSERT_FALSE(found) << at << " ^ " << flip;
            break;
          default:
            ASSERT_TRUE(reader);
            ASSERT_EQ(payload_of(*reader, each.shape, 300, 4, found), expected_payload(each.shape, 300, 4));
        }
      }
    }
  }
}

TEST(SeqBlobReader, SurvivesRandomDamage) {
  const uint32_t seed = 77;
  std::mt19937 random(seed);
  const auto shapes = all_shapes();
  for (int round = 0; round < 40000; ++round) {
    const BlobShape& shape = shapes[random() % shapes.size()].shape;
    const auto original = make_blob(shape, same_positions(shape, positions_from(0, 4)));
    auto blob = original.bytes;
    for (uint32_t i = 0; i < 1 + random() % 4; ++i) {
      const size_t at = random() % blob.size();
      const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, static_cast<uint32_t>(random())};
      const uint32_t value = values[random() % 6];
      std::memcpy(blob.data() + at, &value, std::min<size_t>(4, blob.size() - at));
    }
    if (random() % 4 == 0) blob.resize(random() % (blob.size() + 8));
    blob.shrink_to_fit();
    const auto reader = BlobReader::parse(blob, shape);
    if (!reader) continue;
    // Then all that differs is the rows, the positions or the sequence's number: every payload can be copied.
    ASSERT_EQ(blob.size(), original.bytes.size()) << "seed " << seed << " round " << round;
    for (size_t at = 0; at < blob.size(); ++at) {
      if (original.fields[at] == BlobField::kStructure) {
        ASSERT_EQ(blob[at], original.bytes[at]) << "seed " << seed << " round " << round << " byte " << at;
      }
    }
    bool found = false;
    payload_of(*reader, shape, 0, 4, found);
  }
}

}  // namespace
}  // namespace rhizome
