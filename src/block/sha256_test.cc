#include "block/sha256.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The examples of FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256(bytes_of("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, GivesTheSameInPieces) {
  Sha256 hash;
  const std::vector<std::byte> thousand(1000, std::byte{'a'});
  for (int i = 0; i < 1000; ++i)
    hash.update(thousand);
  EXPECT_EQ(hex(hash.finish()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TakesEmptyPieces) {
  Sha256 hash;
  hash.update({});
  hash.update(bytes_of("abc"));
  hash.update({});
  EXPECT_EQ(hash.finish(), sha256(bytes_of("abc")));
}

TEST(Hex, WritesAsManyBytesAsAskedFor) {
  const Digest digest = sha256(bytes_of("abc"));
  EXPECT_EQ(hex(digest, 0), "");
  EXPECT_EQ(hex(digest, 4), "ba7816bf");
  EXPECT_EQ(hex(digest).size(), 64u);
}

TEST(HexDeathTest, AbortsOnMoreThanThereIs) {
  EXPECT_DEATH(hex(Digest{}, 33), "check failed");
}

}  // namespace
}  // namespace rhizome
