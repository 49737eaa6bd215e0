#include "block/checksum.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

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
