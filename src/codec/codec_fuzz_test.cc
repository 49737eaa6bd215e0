// Mutations of images that were right: a decoder may give any bytes, but reads and writes only where it may (the
// address sanitizer watches), and every variant of the kernels says the same. The corpus is made here, one image for
// each codec, type, layout and filling.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/little_endian.h"
#include "codec/image_fixture.h"

namespace rhizome {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  // Somewhere behind `first`.
  void mutate(std::vector<std::byte>& bytes, size_t first) {
    if (bytes.size() <= first) return;
    const size_t at = first + below(bytes.size() - first);
    const auto here = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (below(8)) {
      case 0:
      case 1:
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
        break;
      case 2:
        bytes[at] = static_cast<std::byte>(random_());
        break;
      case 3:
        bytes[at] = below(2) == 0 ? std::byte{0xff} : std::byte{0};
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.insert(here, static_cast<std::byte>(random_()));
        break;
      case 6:
        bytes.erase(here);
        break;
      default: {
        const std::vector<std::byte> piece(here, here + static_cast<ptrdiff_t>(below(bytes.size() - at)));
        const auto target = bytes.begin() + static_cast<ptrdiff_t>(first + below(bytes.size() - first));
        bytes.insert(target, piece.begin(), piece.end());
        break;
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST(ImageHeaderFuzz, TakesOnlyWhatWouldBeWritten) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  Mutator mutator(seed);
  size_t taken = 0;
  size_t refused = 0;
  for (int round = 0; round < 60'000; ++round) {
    ImageHeader header;
    header.codec = kCodecs[mutator.below(std::size(kCodecs))];
    header.geometry = geometry_of(static_cast<uint16_t>(1 + mutator.below(40)), 16, 3, 64, 64);
    header.encoded_bytes = static_cast<uint32_t>(mutator.random()());
    std::array<std::byte, kImageHeaderBytes> written;
    write_image_header(header, written);
    std::vector<std::byte> bytes(written.begin(), written.end());
    for (size_t i = mutator.below(3) + 1; i > 0; --i)
      mutator.mutate(bytes, 0);
    bytes.shrink_to_fit();
    const Result<ImageHeader> parsed = parse_image_header(bytes);
    if (!parsed) {
      ++refused;
      continue;
    }
    ++taken;
    ASSERT_TRUE(parsed->geometry.is_valid());
    std::array<std::byte, kImageHeaderBytes> again;
    write_image_header(*parsed, again);
    ASSERT_TRUE(std::equal(again.begin(), again.end(), bytes.begin())) << round;
  }
  EXPECT_GT(taken, 1'000u);
  EXPECT_GT(refused, 10'000u);
}

struct Sample {
  std::unique_ptr<TestBlock> block;
  std::vector<std::byte> image;
};

std::vector<Sample> corpus(Codec codec, std::mt19937_64& random) {
  std::vector<Sample> samples;
  for (const ElementType type : {ElementType::kBf16, ElementType::kF16}) {
    for (const ImageLayout layout : {ImageLayout::kLayerHalfToken, ImageLayout::kLayerTokenHalf}) {
      for (const auto& [key_width, value_width] : {std::pair{64, 128}, {72, 5}}) {
        for (const Fill how : {Fill::kGaussian, Fill::kRandom, Fill::kZeros, Fill::kSpecials}) {
          auto block = std::make_unique<TestBlock>(geometry_of(2, 12, 1, static_cast<uint16_t>(key_width),
                                                               static_cast<uint16_t>(value_width), type, layout));
          fill(block->raw, how, type, random);
          std::vector<std::byte> image = block->image(codec, {}, ImageDigest::kLeaveOut);
          samples.push_back({std::move(block), std::move(image)});
        }
      }
    }
  }
  return samples;
}

class DecoderFuzz : public testing::TestWithParam<Codec> {};

TEST_P(DecoderFuzz, NeverLeavesItsBytesAndAllKernelsAgree) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  Mutator mutator(seed);
  const std::vector<Sample> samples = corpus(GetParam(), mutator.random());
  CodecWorkspace workspace;
  size_t decoded = 0;
  size_t refused = 0;
  for (int round = 0; round < 30'000; ++round) {
    const Sample& sample = samples[mutator.below(samples.size())];
    const size_t head = kImageHeaderBytes + identity_bytes(12);
    std::vector<std::byte> image = sample.image;
    for (size_t i = mutator.below(3) + 1; i > 0; --i)
      mutator.mutate(image, head);
    // What came is as long as it says, and usually its last section ends where it does: else little else is reached.
    store_little(image.data() + 24, static_cast<uint32_t>(image.size() - kImageHeaderBytes));
    if (GetParam() != Codec::kRaw && image.size() > head + 16 && mutator.below(4) != 0)
      store_little(image.data() + head + 12, static_cast<uint32_t>(image.size() - head));
    image.shrink_to_fit();
    const Result<CheckedImage> checked = check_image(image, sample.block->request(), ImageCheck::kByTheCaller);
    if (!checked) {
      ++refused;
      continue;
    }
    std::vector<std::byte> expected(sample.block->raw.size());
    const std::optional<ImageRule> verdict =
        rule_of(decode_image(*checked, workspace, expected, {&plane_kernels().front(), &rans_kernels().front()}));
    (verdict ? refused : decoded) += 1;
    for (const PlaneKernels& planes : plane_kernels()) {
      std::vector<std::byte> got(expected.size());
      ASSERT_EQ(rule_of(decode_image(*checked, workspace, got, {&planes, &fastest_rans_kernel()})), verdict)
          << planes.name << " " << round;
      if (!verdict) {
        ASSERT_EQ(got, expected) << planes.name << " " << round;
      }
    }
  }
  EXPECT_GT(decoded, 1'000u);
  EXPECT_GT(refused, 1'000u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, DecoderFuzz, testing::ValuesIn(kCodecs), [](const auto& codec) {
  std::string name = codec_name(codec.param);
  std::erase_if(name, [](char c) { return c == '-' || c == ' '; });
  return name;
});

}  // namespace
}  // namespace rhizome
