// Mutations of frames that were right, and of frames that were wrong in an interesting way: any bytes give a frame or
// an error, nothing is read outside of them (the address sanitizer watches), and what was decoded encodes to the same.

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "attach/frame.h"
#include "attach/frame_corpus.h"
#include "block/little_endian.h"

namespace rhizome {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void mutate(std::vector<std::byte>& bytes, const std::vector<std::byte>& other) {
    if (bytes.empty()) bytes.resize(kFrameHeadBytes);
    const size_t at = below(bytes.size());
    const auto here = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (below(8)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random_());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(here, static_cast<std::byte>(random_()));
        break;
      case 4:
        bytes.erase(here);
        break;
      case 5:
        // The head of one and the rest of another one.
        std::copy_n(other.begin(), std::min(other.size(), at), bytes.begin());
        break;
      case 6:
        if (bytes.size() >= at + 4) store_little(bytes.data() + at, interesting());
        break;
      default:
        bytes.resize(bytes.size() + below(300), static_cast<std::byte>(random_()));
        break;
    }
  }

  // As a liar would who knows the format.
  void agree(std::vector<std::byte>& bytes) {
    if (bytes.size() >= kFrameHeadBytes && below(4) != 0) {
      store_little(bytes.data() + 4, static_cast<uint32_t>(bytes.size() - kFrameHeadBytes));
    }
  }

 private:
  uint32_t interesting() {
    static constexpr uint32_t kValues[] = {0,         1, 63, 64, 65, 255, 256, 257, 1 << 16, 1u << 31, UINT32_MAX - 3,
                                           UINT32_MAX};
    return kValues[below(std::size(kValues))];
  }

  std::mt19937_64 random_;
};

// Whether it was taken.
bool check(const std::vector<std::byte>& message) {
  const Result<AnyFrame> frame = decode_frame(message);
  const Result<FrameHead> head = decode_frame_head(message);
  if (!frame) {
    EXPECT_EQ(frame.error().code, Code::kInvalidArgument);
    return false;
  }
  EXPECT_TRUE(head.has_value());
  EXPECT_EQ(static_cast<size_t>(head->kind), frame->index() + 1);
  const auto again = encode_frame(*frame, head->request);
  EXPECT_TRUE(again.has_value());
  EXPECT_EQ(hex_of(*again), hex_of(message));
  return true;
}

TEST(FrameFuzz, TakesOnlyWhatWouldBeWritten) {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'403;
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  Mutator mutator(seed);
  std::vector<std::vector<std::byte>> corpus;
  for (const GoldenFrame& golden : golden_frames())
    corpus.push_back(bytes_of_hex(golden.hex));
  for (const std::string_view hex : hostile_frames())
    corpus.push_back(bytes_of_hex(hex));
  size_t taken = 0;
  size_t refused = 0;
  for (int round = 0; round < 100'000 && !testing::Test::HasFailure(); ++round) {
    std::vector<std::byte> bytes = corpus[mutator.below(corpus.size())];
    for (size_t i = mutator.below(4) + 1; i > 0; --i)
      mutator.mutate(bytes, corpus[mutator.below(corpus.size())]);
    mutator.agree(bytes);
    // An allocation of exactly this size, so that one byte too far is found.
    const std::vector<std::byte> exact(bytes.begin(), bytes.end());
    (check(exact) ? taken : refused) += 1;
  }
  // Both ways are walked.
  EXPECT_GT(taken, 5'000u);
  EXPECT_GT(refused, 20'000u);
}

}  // namespace
}  // namespace rhizome
