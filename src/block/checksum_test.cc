#include "block/checksum.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "block/checksum_variants.h"

namespace rhizome {
namespace {

uint64_t of(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

// XXH3-64 with seed 0, as `xxhsum -H3` prints it: checksums outlive the process that made them.
TEST(Checksum, GivesThePublishedValues) {
  EXPECT_EQ(of(""), 0x2d06800538d394c2u);
  EXPECT_EQ(of("a"), 0xe6c632b61e964e1fu);
  EXPECT_EQ(of("abc"), 0x78af5f94892f3950u);
}

// A store that one processor has filled is read by another.
TEST(Checksum, IsTheSameOnEveryProcessor) {
  std::vector<std::byte> bytes((1 << 18) + 77);
  uint64_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  // From Debian's own libxxhash: the published values above are too short for the instructions that differ.
  constexpr uint64_t kGolden = 0xe22975a73025c210u;
  for (const ChecksumVariant& variant : checksum_variants()) {
    EXPECT_EQ(variant.of(bytes.data(), bytes.size()), kGolden) << variant.name;
    for (size_t size = 0; size < 4096; ++size) {
      // At odd addresses too.
      ASSERT_EQ(variant.of(bytes.data() + size % 67, size),
                checksum_variants().front().of(bytes.data() + size % 67, size))
          << variant.name << " " << size;
    }
  }
}

// However the bytes are cut, on every processor.
TEST(Checksum, IsTheSameInParts) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes((1 << 17) + 77);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  alignas(64) std::array<std::byte, ChecksumStream::kStateBytes> state;
  for (int round = 0; round < 400; ++round) {
    const size_t size = round < 100 ? random() % 600 : random() % bytes.size();
    const auto all = std::span<const std::byte>(bytes).subspan(random() % 67).first(size);
    const size_t part_max = size_t{1} << random() % 18;
    for (const ChecksumVariant& variant : checksum_variants()) {
      state.fill(std::byte{0});
      variant.parts.begin(state.data());
      for (auto rest = all; !rest.empty();) {
        const size_t part = std::min(1 + random() % part_max, rest.size());
        variant.parts.add(state.data(), rest.data(), part);
        rest = rest.subspan(part);
      }
      ASSERT_EQ(variant.parts.sum(state.data()), checksum(all)) << variant.name << " " << size << " " << part_max;
    }
    ChecksumStream stream;
    stream.add(all.first(size / 3));
    EXPECT_EQ(stream.sum(), checksum(all.first(size / 3)));
    stream.add(all.subspan(size / 3));
    EXPECT_EQ(stream.sum(), checksum(all));
  }
}

TEST(Checksum, FindsAnyFlippedBit) {
  // One length in each of the algorithm's ranges.
  for (const size_t size : {1u, 8u, 16u, 100u, 200u, 4096u}) {
    std::vector<std::byte> bytes(size, std::byte{0x5a});
    const uint64_t good = checksum(bytes);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      EXPECT_NE(checksum(bytes), good) << size << " " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    }
    EXPECT_EQ(checksum(bytes), good);
  }
}

TEST(Checksum, FindsAMissingOrAddedZero) {
  const std::vector<std::byte> zeros(1000);
  for (size_t size = 0; size + 1 < zeros.size(); ++size) {
    EXPECT_NE(checksum(std::span(zeros).first(size)), checksum(std::span(zeros).first(size + 1))) << size;
  }
}

}  // namespace
}  // namespace rhizome
