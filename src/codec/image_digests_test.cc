#include "codec/image_digests.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codec/image.h"
#include "codec/image_fixture.h"

namespace rhizome {
namespace {

// Of every length around the ends of blocks, and of one that is long.
TEST(DigestLanes, AreTheDigestsOfTheLibrary) {
  if (!can_digest_lanes()) GTEST_SKIP() << "this processor has no AVX-512";
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const size_t head_bytes : {0u, 1u, 52u, 63u, 64u, 65u}) {
    for (size_t body_bytes = 0; body_bytes <= 200; ++body_bytes) {
      std::vector<std::vector<std::byte>> bytes(kDigestLanes);
      DigestInput inputs[kDigestLanes];
      for (size_t lane = 0; lane < kDigestLanes; ++lane) {
        bytes[lane].resize(head_bytes + body_bytes);
        for (std::byte& byte : bytes[lane])
          byte = static_cast<std::byte>(random());
        inputs[lane] = {bytes[lane].data(), bytes[lane].data() + head_bytes};
      }
      Digest digests[kDigestLanes];
      digest_lanes(inputs, head_bytes, body_bytes, digests);
      for (size_t lane = 0; lane < kDigestLanes; ++lane)
        ASSERT_EQ(digests[lane], sha256(bytes[lane])) << head_bytes << " " << body_bytes << " " << lane;
    }
  }
}

TEST(ImageDigests, AreThoseOfEachImageHoweverManyAreAlike) {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::byte>> images;
  // Runs of 1, 2, 9, 10, 16, 17 and 40 images of one length.
  size_t size = kImageHeaderBytes;
  for (const size_t count : {1u, 2u, 9u, 10u, 16u, 17u, 40u}) {
    for (size_t i = 0; i < count; ++i) {
      images.emplace_back(size);
      for (std::byte& byte : images.back())
        byte = static_cast<std::byte>(random());
    }
    size += 333;
  }
  const std::vector<std::span<const std::byte>> given(images.begin(), images.end());
  std::vector<Digest> digests(given.size());
  image_digests(given, digests);
  for (size_t i = 0; i < given.size(); ++i)
    ASSERT_EQ(digests[i], image_digest(given[i])) << i;
  image_digests({}, {});
}

}  // namespace
}  // namespace rhizome
