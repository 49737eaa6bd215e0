#include "codec/plane_kernels.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codec/image_fixture.h"

namespace rhizome {
namespace {

constexpr uint32_t kChannels[] = {1, 7, 8, 9, 63, 64, 65, 72, 100, 127, 128, 192, 200, 256, 320, 511};
constexpr uint32_t kRows[] = {1, 2, 3, 16, 17};

// Buffers of exactly the size that the contract states, so that one byte too far is found.
struct Encoded {
  std::vector<std::byte> bases;
  std::vector<std::byte> planes;
  std::vector<std::byte> rest;
  std::vector<std::byte> escapes;
  uint64_t escapes_count = 0;
};

ElementType type_of(PlaneFormat format) {
  return format == PlaneFormat::kF16 ? ElementType::kF16 : ElementType::kBf16;
}

Encoded encode(const PlaneKernels& kernels, PlaneFormat format, std::span<const std::byte> values,
               const PlaneShape& shape) {
  Encoded out;
  out.bases.resize(shape.bases_bytes());
  out.planes.resize(shape.groups_count() * (kDistancePlanes + rest_planes(format)) * kPlaneBytes);
  out.rest.resize(shape.padded_values());
  out.escapes.resize(shape.padded_values() + kEscapeSlackBytes);
  kernels.of(format).find_bases(values.data(), shape, out.bases.data());
  out.escapes_count = kernels.of(format).encode_e3(
      values.data(), shape, {out.bases.data(), out.planes.data(), out.rest.data(), out.escapes.data()});
  out.escapes.resize(out.escapes_count);
  out.escapes.shrink_to_fit();
  return out;
}

bool decode(const PlaneKernels& kernels, PlaneFormat format, const Encoded& from, const PlaneShape& shape,
            std::span<std::byte> values) {
  E3Source source;
  source.bases = from.bases.data();
  source.planes = from.planes.data();
  source.rest = from.rest.data();
  source.escapes = from.escapes.data();
  source.escapes_count = from.escapes_count;
  source.readable_end = from.escapes.data() + from.escapes.size();
  return kernels.of(format).decode_e3(source, shape, values.data());
}

class PlaneKernelsTest : public testing::TestWithParam<PlaneFormat> {
 protected:
  PlaneKernelsTest() : seed_(seed_of_run()), random_(seed_) {}

  uint64_t seed_;
  std::mt19937_64 random_;
};

TEST_P(PlaneKernelsTest, ComeBackAndAgreeForEveryShape) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  for (const uint32_t channels : kChannels) {
    for (const uint32_t rows : kRows) {
      // With a gap between rows, which must stay as it is.
      const uint64_t gap = random_() % 2 == 0 ? 0 : 6;
      const PlaneShape shape = {rows, channels, uint64_t{channels} * 2 + gap};
      for (const Fill how : kFills) {
        std::vector<std::byte> values(rows * shape.row_stride_bytes - gap);
        fill(values, how, type_of(GetParam()), random_);
        const Encoded expected = encode(plane_kernels().front(), GetParam(), values, shape);
        for (const PlaneKernels& kernels : plane_kernels()) {
          const Encoded got = encode(kernels, GetParam(), values, shape);
          ASSERT_EQ(got.bases, expected.bases) << kernels.name << " " << channels << " " << rows;
          ASSERT_EQ(got.planes, expected.planes) << kernels.name << " " << channels << " " << rows;
          ASSERT_EQ(got.rest, expected.rest) << kernels.name << " " << channels << " " << rows;
          ASSERT_EQ(got.escapes, expected.escapes) << kernels.name << " " << channels << " " << rows;
          std::vector<std::byte> back(values.size(), std::byte{0xcd});
          ASSERT_TRUE(decode(kernels, GetParam(), got, shape, back)) << kernels.name << " " << channels << " " << rows;
          for (uint32_t row = 0; row < rows; ++row) {
            const size_t at = row * shape.row_stride_bytes;
            ASSERT_EQ(std::memcmp(back.data() + at, values.data() + at, size_t{channels} * 2), 0) << kernels.name;
            for (size_t i = at + size_t{channels} * 2; row + 1 < rows && i < at + shape.row_stride_bytes; ++i)
              ASSERT_EQ(back[i], std::byte{0xcd});
          }
        }
      }
    }
  }
}

TEST_P(PlaneKernelsTest, AgreeOnWhatNoEncoderWrote) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  const PlaneShape shape = {4, 130, 260};
  int taken = 0;
  for (int round = 0; round < 2000; ++round) {
    Encoded bytes;
    bytes.bases.resize(shape.bases_bytes());
    bytes.planes.resize(shape.groups_count() * (kDistancePlanes + rest_planes(GetParam())) * kPlaneBytes);
    bytes.rest.resize(shape.padded_values());
    bytes.escapes.resize(random_() % 220);
    for (std::vector<std::byte>* part : {&bytes.bases, &bytes.planes, &bytes.rest, &bytes.escapes}) {
      for (std::byte& byte : *part)
        byte = static_cast<std::byte>(random_());
    }
    // Every eighth is an escape, and now and then exactly so many are there.
    bytes.escapes_count = bytes.escapes.size();
    uint64_t needed = 0;
    for (uint64_t group = 0; group < shape.groups_count(); ++group) {
      const std::byte* at = bytes.planes.data() + group * (kDistancePlanes + rest_planes(GetParam())) * kPlaneBytes;
      uint64_t bits[3];
      std::memcpy(bits, at, sizeof bits);
      needed += static_cast<uint64_t>(__builtin_popcountll(bits[0] & bits[1] & bits[2]));
    }
    if (round % 2 == 0) {
      bytes.escapes.resize(needed, std::byte{0x5a});
      bytes.escapes.shrink_to_fit();
      bytes.escapes_count = needed;
    }
    std::vector<std::byte> expected(shape.rows_count * shape.row_stride_bytes);
    const bool is_taken = decode(plane_kernels().front(), GetParam(), bytes, shape, expected);
    EXPECT_EQ(is_taken, bytes.escapes_count == needed);
    taken += is_taken ? 1 : 0;
    for (const PlaneKernels& kernels : plane_kernels()) {
      std::vector<std::byte> got(expected.size());
      ASSERT_EQ(decode(kernels, GetParam(), bytes, shape, got), is_taken) << kernels.name;
      if (is_taken) {
        ASSERT_EQ(got, expected) << kernels.name;
      }
    }
  }
  EXPECT_GE(taken, 1000);
}

TEST_P(PlaneKernelsTest, SplitAndJoinAgree) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  for (const uint32_t channels : kChannels) {
    const PlaneShape shape = {5, channels, uint64_t{channels} * 2};
    std::vector<std::byte> values(shape.rows_count * shape.row_stride_bytes);
    fill(values, Fill::kRandom, type_of(GetParam()), random_);
    std::vector<std::byte> expected;
    for (const PlaneKernels& kernels : plane_kernels()) {
      std::vector<std::byte> planes(shape.groups_count() * rest_planes(GetParam()) * kPlaneBytes);
      std::vector<std::byte> rest(shape.padded_values());
      std::vector<std::byte> symbols(shape.padded_values());
      kernels.of(GetParam()).split(values.data(), shape, {planes.data(), rest.data(), symbols.data()});
      std::vector<std::byte> all = planes;
      all.insert(all.end(), rest.begin(), rest.end());
      all.insert(all.end(), symbols.begin(), symbols.end());
      if (expected.empty()) expected = all;
      ASSERT_EQ(all, expected) << kernels.name << " " << channels;

      constexpr uint8_t kTop = 20;
      std::vector<std::byte> escaped;
      for (std::byte& symbol : symbols) {
        const uint8_t distance = static_cast<uint8_t>(kTop - std::to_integer<uint8_t>(symbol));
        if (distance >= kEscapeSymbol) escaped.push_back(symbol);
        symbol = static_cast<std::byte>(std::min(distance, kEscapeSymbol));
      }
      escaped.shrink_to_fit();
      std::vector<std::byte> back(values.size());
      EscapeCursor cursor(escaped.data(), escaped.data() + escaped.size());
      // In two pieces that end in the middle of a row.
      const uint64_t first = shape.groups_count() / 2;
      const JoinSource head = {planes.data(), rest.data(), symbols.data(), kTop, 0, first};
      const JoinSource tail = {planes.data(), rest.data(), symbols.data() + first * kGroupChannels,
                               kTop,          first,       shape.groups_count() - first};
      ASSERT_TRUE(kernels.of(GetParam()).join(head, cursor, shape, back.data()));
      ASSERT_TRUE(kernels.of(GetParam()).join(tail, cursor, shape, back.data()));
      EXPECT_EQ(cursor.taken, escaped.size());
      ASSERT_EQ(back, values) << kernels.name << " " << channels;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PlaneKernelsTest, testing::Values(PlaneFormat::kBf16, PlaneFormat::kF16),
                         [](const auto& format) { return format.param == PlaneFormat::kF16 ? "F16" : "Bf16"; });

// What this machine runs has been compared above.
TEST(PlaneKernels, BeginWithTheOneForEveryProcessor) {
  EXPECT_STREQ(plane_kernels().front().name, "scalar");
  EXPECT_EQ(&fastest_plane_kernels(), &plane_kernels().back());
}

}  // namespace
}  // namespace rhizome
