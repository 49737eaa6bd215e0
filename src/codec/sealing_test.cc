#include "codec/sealing.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "block/little_endian.h"
#include "codec/image_fixture.h"
#include "machine/files.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

const std::string kFirst = "7 " + std::string(64, 'a') + "\n";
const std::string kSecond = "# since spring\n\n  12\t" + std::string(64, 'B') + " \r\n";

class Sealing : public testing::Test {
 protected:
  Sealing() : block_(geometry_of(2, 4, 1, 64, 64)), keys_(SealKeys::parse(kFirst).value()) {
    std::mt19937_64 random(1);
    fill(block_.raw, Fill::kGaussian, ElementType::kBf16, random);
  }

  std::vector<std::byte> sealed(const SealKeys& keys, Codec codec = Codec::kE3) const {
    std::vector<std::byte> image = block_.image(codec, {}, ImageDigest::kLeaveOut);
    const size_t bytes = image.size();
    image.resize(bytes + kSealBytes);
    EXPECT_EQ(seal_image(keys, image, bytes), image.size());
    return image;
  }
  std::optional<ImageRule> rule_for(std::span<const std::byte> image, const ImageRequest& request,
                                    const SealKeys& keys) {
    const Result<CheckedImage> opened = open_image(image, request, keys, workspace_);
    if (!opened) return rule_of(opened);
    std::vector<std::byte> raw(block_.raw.size());
    const std::optional<ImageRule> rule = rule_of(decode_image(*opened, workspace_, raw));
    if (!rule) {
      EXPECT_EQ(raw, block_.raw);
    }
    return rule;
  }

  TestBlock block_;
  SealKeys keys_;
  CodecWorkspace workspace_;
};

TEST_F(Sealing, OpensWhatItSealed) {
  for (const Codec codec : kCodecs)
    EXPECT_EQ(rule_for(sealed(keys_, codec), block_.request(), keys_), std::nullopt) << codec_name(codec);
}

TEST_F(Sealing, ShowsNeitherTokensNorRows) {
  const std::vector<std::byte> image = sealed(keys_, Codec::kRaw);
  const auto tokens = std::as_bytes(std::span(block_.tokens));
  EXPECT_EQ(std::search(image.begin(), image.end(), tokens.begin(), tokens.end()), image.end());
  EXPECT_EQ(std::search(image.begin(), image.end(), block_.raw.begin(), block_.raw.begin() + 8), image.end());
  // Nor that two images are of the same block.
  EXPECT_NE(image, sealed(keys_, Codec::kRaw));
}

TEST_F(Sealing, FindsEveryFlippedBit) {
  std::vector<std::byte> image = sealed(keys_);
  for (size_t bit = 0; bit < 8 * image.size(); ++bit) {
    image[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_NE(rule_for(image, block_.request(), keys_), std::nullopt) << bit;
    image[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  const size_t seal_at = kImageHeaderBytes;
  const auto rule_after_flip = [&](size_t at) {
    std::vector<std::byte> changed = image;
    changed[at] ^= std::byte{1};
    return rule_for(changed, block_.request(), keys_);
  };
  EXPECT_EQ(rule_after_flip(seal_at), ImageRule::kSealKey);
  EXPECT_EQ(rule_after_flip(seal_at + 4), ImageRule::kSeal) << "nonce";
  EXPECT_EQ(rule_after_flip(seal_at + 16), ImageRule::kSeal) << "tag";
  EXPECT_EQ(rule_after_flip(image.size() - 1), ImageRule::kSeal);
  // A field of the header that nothing else compares.
  std::vector<std::byte> changed = image;
  store_little(changed.data() + 5, static_cast<uint8_t>(Codec::kRans));
  EXPECT_EQ(rule_for(changed, block_.request(), keys_), ImageRule::kSeal);
}

TEST_F(Sealing, KeysAreRotatedByTheirIds) {
  const SealKeys both = SealKeys::parse(kFirst + kSecond).value();
  const SealKeys second = SealKeys::parse(kSecond).value();
  EXPECT_EQ(both.sealing_id(), 12u);
  EXPECT_EQ(rule_for(sealed(keys_), block_.request(), both), std::nullopt);
  EXPECT_EQ(rule_for(sealed(both), block_.request(), second), std::nullopt);
  EXPECT_EQ(rule_for(sealed(both), block_.request(), keys_), ImageRule::kSealKey);
  // The same id, another key: another tenant's file.
  const SealKeys other = SealKeys::parse("7 " + std::string(64, 'c')).value();
  EXPECT_EQ(rule_for(sealed(keys_), block_.request(), other), ImageRule::kSeal);
}

TEST_F(Sealing, TakesNothingThatIsNotSealedAndNobodyElseTakesWhatIs) {
  EXPECT_EQ(rule_for(block_.image(Codec::kE3), block_.request(), keys_), ImageRule::kCheckMissing);
  EXPECT_EQ(rule_of(check_image(sealed(keys_), block_.request(), ImageCheck::kDigest)), ImageRule::kSealKey);
}

TEST_F(Sealing, ComparesTheIdentityBehindTheSeal) {
  ImageRequest request = block_.request();
  request.content.identity.position = 4;
  EXPECT_EQ(rule_for(sealed(keys_), request, keys_), ImageRule::kIdentity);
}

TEST(SealKeys, RefusesWhatIsNoKeyFile) {
  for (const std::string& text :
       {std::string(), std::string("# nothing\n"), std::string("7"), "7 " + std::string(63, 'a'),
        "7 " + std::string(65, 'a'), "7 " + std::string(63, 'a') + "g", "0 " + std::string(64, 'a'),
        "-1 " + std::string(64, 'a'), "4294967296 " + std::string(64, 'a'), "x " + std::string(64, 'a'),
        "7x " + std::string(64, 'a'), std::string(64, 'a'), kFirst + kFirst})
    EXPECT_FALSE(SealKeys::parse(text).has_value()) << text;
}

TEST(SealKeys, AreReadFromAFileThatIsTheOwnersAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path("keys");
  ASSERT_TRUE(write_file_atomically(path, kFirst + kSecond));
  const Result<SealKeys> keys = SealKeys::read(path);
  ASSERT_TRUE(keys.has_value());
  ASSERT_NE(keys->find(7), nullptr);
  EXPECT_EQ(keys->find(7)->front(), std::byte{0xaa});
  EXPECT_EQ(keys->find(12)->back(), std::byte{0xbb});
  EXPECT_EQ(keys->find(8), nullptr);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(SealKeys::read(path).error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace rhizome
