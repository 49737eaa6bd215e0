#include "block/keyspace.h"

#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "block/block_fixture.h"

namespace rhizome {
namespace {

constexpr KeyspaceTag kAllTags[] = {KeyspaceTag::kEngine,        KeyspaceTag::kWeights,     KeyspaceTag::kOverrides,
                                    KeyspaceTag::kLayout,        KeyspaceTag::kMemoryClass, KeyspaceTag::kRope,
                                    KeyspaceTag::kRotation,      KeyspaceTag::kAttention,   KeyspaceTag::kAdapters,
                                    KeyspaceTag::kControlVector, KeyspaceTag::kTenant,      KeyspaceTag::kSalt,
                                    KeyspaceTag::kEpoch,         KeyspaceTag::kMedia,       KeyspaceTag::kNumerics};
constexpr KeyspaceTag kMandatoryTags[] = {KeyspaceTag::kEngine,      KeyspaceTag::kWeights, KeyspaceTag::kLayout,
                                          KeyspaceTag::kMemoryClass, KeyspaceTag::kRope,    KeyspaceTag::kAttention};

// Fields put together by hand, so that a test can write what no builder would.
class RawEncoding {
 public:
  RawEncoding& head(std::string_view magic = "RZKS", uint32_t version = 1) {
    bytes_.append(magic);
    return number(version, 4);
  }
  RawEncoding& frame(uint16_t tag, std::string_view value) { return frame(tag, value, value.size()); }
  RawEncoding& frame(uint16_t tag, std::string_view value, size_t length) {
    number(tag, 2);
    number(length, 4);
    bytes_.append(value);
    return *this;
  }
  RawEncoding& complete() {
    return frame(1, "e").frame(2, "w").frame(4, "l").frame(5, "m").frame(6, "r").frame(8, "a");
  }
  Result<Keyspace> decoded() const { return Keyspace::decode(std::as_bytes(std::span(bytes_))); }

 private:
  RawEncoding& number(uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i)
      bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

TEST(Keyspace, EncodesAsTheFormatSays) {
  const Keyspace keyspace = golden_builder().seal().value();
  EXPECT_EQ(hex_of(keyspace.encoding()),
            "525a4b5301000000"  // RZKS, version 1
            "01000f000000"
            "6c6c616d612e6370702f7365712d33"  // engine
            "020020000000"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "040001000000"
            "4c"  // layout
            "050005000000"
            "64656e7365"  // memory class
            "060008000000"
            "6e656f782c316536"  // rope
            "080006000000"
            "63617573616c"    // attention
            "0b0000000000");  // tenant, of no bytes
  EXPECT_EQ(hex(keyspace.digest()), kGoldenDigest);
}

TEST(Keyspace, DoesNotDependOnTheOrderOfSetting) {
  KeyspaceBuilder backwards;
  backwards.set(KeyspaceTag::kTenant, "")
      .set(KeyspaceTag::kAttention, "other")
      .set(KeyspaceTag::kRope, "neox,1e6")
      .set(KeyspaceTag::kMemoryClass, "dense")
      .set(KeyspaceTag::kLayout, "L")
      .set(KeyspaceTag::kWeights, counting_digest())
      .set(KeyspaceTag::kEngine, "llama.cpp/seq-3")
      .set(KeyspaceTag::kAttention, "causal");
  EXPECT_EQ(backwards.seal().value(), golden_builder().seal().value());
}

TEST(Keyspace, IsRefusedWhenAMandatoryFieldIsMissingOrEmpty) {
  for (const KeyspaceTag left_out : kMandatoryTags) {
    KeyspaceBuilder builder;
    for (const KeyspaceTag tag : kAllTags) {
      if (tag != left_out) builder.set(tag, "value");
    }
    ASSERT_FALSE(builder.seal().has_value()) << keyspace_tag_name(left_out);
    EXPECT_EQ(builder.seal().error().code, Code::kFailedPrecondition);
    builder.set(left_out, "");
    EXPECT_FALSE(builder.seal().has_value()) << keyspace_tag_name(left_out);
    builder.set(left_out, "value");
    EXPECT_TRUE(builder.seal().has_value()) << keyspace_tag_name(left_out);
  }
  EXPECT_FALSE(KeyspaceBuilder().seal().has_value());
}

TEST(Keyspace, IsRefusedWhenAValueIsTooLong) {
  KeyspaceBuilder builder = golden_builder();
  builder.set(KeyspaceTag::kSalt, std::string(1 << 20, 's'));
  const Keyspace longest = builder.seal().value();
  EXPECT_EQ(Keyspace::decode(longest.encoding()).value(), longest);
  builder.set(KeyspaceTag::kSalt, std::string((1 << 20) + 1, 's'));
  EXPECT_EQ(builder.seal().error().code, Code::kInvalidArgument);
  EXPECT_FALSE(RawEncoding().head().complete().frame(12, std::string((1 << 20) + 1, 's')).decoded().has_value());
}

TEST(Keyspace, ChangesWithEveryFieldAlone) {
  std::set<Digest> digests{golden_builder().seal().value().digest()};
  for (const KeyspaceTag tag : kAllTags) {
    KeyspaceBuilder builder = golden_builder();
    builder.set(tag, "changed");
    EXPECT_TRUE(digests.insert(builder.seal().value().digest()).second) << keyspace_tag_name(tag);
  }
}

// Values that move between neighbouring fields, or fields whose ends shift, must not look alike: the
// fault of keys made by joining texts.
TEST(Keyspace, KeepsShiftedValuesApart) {
  // The last value is what a frame of the next field looks like.
  const std::optional<std::string_view> values[] = {std::nullopt,
                                                    "",
                                                    "a",
                                                    "b",
                                                    "ab",
                                                    "ba",
                                                    "aa",
                                                    "|",
                                                    "a|b",
                                                    std::string_view("\0", 1),
                                                    std::string_view("\x0c\x00\x01\x00\x00\x00"
                                                                     "a",
                                                                     7)};
  std::set<Digest> digests;
  size_t sets_count = 0;
  for (const auto& one : values) {
    for (const auto& two : values) {
      for (const auto& three : values) {
        KeyspaceBuilder builder;
        for (const KeyspaceTag tag : kMandatoryTags)
          builder.set(tag, "value");
        const auto set = [&builder](KeyspaceTag tag, const std::optional<std::string_view>& value) {
          if (value) builder.set(tag, *value);
        };
        set(KeyspaceTag::kControlVector, one);
        set(KeyspaceTag::kTenant, two);
        set(KeyspaceTag::kSalt, three);
        digests.insert(builder.seal().value().digest());
        ++sets_count;
      }
    }
  }
  EXPECT_EQ(digests.size(), sets_count);
}

TEST(Keyspace, TellsAnEmptyFieldFromNone) {
  const Keyspace with_empty = golden_builder().set(KeyspaceTag::kSalt, "").seal().value();
  const Keyspace without = golden_builder().seal().value();
  EXPECT_FALSE(with_empty == without);
}

TEST(KeyspaceDecode, ReadsBackWhatWasSealed) {
  KeyspaceBuilder all;
  for (const KeyspaceTag tag : kAllTags)
    all.set(tag, keyspace_tag_name(tag));
  for (const KeyspaceBuilder& builder : {golden_builder(), all}) {
    const Keyspace sealed = builder.seal().value();
    const Keyspace decoded = Keyspace::decode(sealed.encoding()).value();
    EXPECT_EQ(decoded, sealed);
    EXPECT_EQ(decoded.digest(), sealed.digest());
  }
  const Keyspace sealed = all.seal().value();
  for (const KeyspaceTag tag : kAllTags) {
    const std::span<const std::byte> value = sealed.field(tag);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(value.data()), value.size()), keyspace_tag_name(tag));
  }
  EXPECT_TRUE(golden_builder().seal().value().field(KeyspaceTag::kSalt).empty());
  EXPECT_TRUE(RawEncoding().head().complete().decoded().has_value());
}

TEST(KeyspaceDecode, RefusesEveryTruncationAndExtension) {
  const Keyspace sealed = golden_builder().seal().value();
  for (size_t size = 0; size < sealed.encoding().size(); ++size) {
    const auto decoded = Keyspace::decode(sealed.encoding().first(size));
    // Without the last frame, of an optional field, it is whole again.
    if (size == sealed.encoding().size() - 6) {
      EXPECT_TRUE(decoded.has_value());
      continue;
    }
    ASSERT_FALSE(decoded.has_value()) << size;
    EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
  }
  std::vector<std::byte> longer(sealed.encoding().begin(), sealed.encoding().end());
  for (int i = 0; i < 20; ++i) {
    longer.push_back(std::byte{0});
    EXPECT_FALSE(Keyspace::decode(longer).has_value()) << i;
  }
}

TEST(KeyspaceDecode, RefusesWhatABuilderWouldNotWrite) {
  const std::pair<const char*, RawEncoding> rows[] = {
      {"magic", RawEncoding().head("RZKT").complete()},
      {"version 0", RawEncoding().head("RZKS", 0).complete()},
      {"version 2", RawEncoding().head("RZKS", 2).complete()},
      {"no head", RawEncoding().complete()},
      {"no fields", RawEncoding().head()},
      {"unordered",
       RawEncoding().head().frame(2, "w").frame(1, "e").frame(4, "l").frame(5, "m").frame(6, "r").frame(8, "a")},
      {"duplicate", RawEncoding().head().complete().frame(8, "a")},
      {"duplicate optional", RawEncoding().head().complete().frame(11, "t").frame(11, "t")},
      {"tag 0", RawEncoding().head().frame(0, "x").complete()},
      {"tag 16", RawEncoding().head().complete().frame(16, "x")},
      {"tag 65535", RawEncoding().head().complete().frame(65535, "x")},
      {"length too long", RawEncoding().head().complete().frame(11, "tenant", 7)},
      {"length too short", RawEncoding().head().complete().frame(11, "tenant", 5)},
      {"length of 4 GiB", RawEncoding().head().complete().frame(11, "tenant", 0xffffffff)},
      {"missing rope", RawEncoding().head().frame(1, "e").frame(2, "w").frame(4, "l").frame(5, "m").frame(8, "a")},
      {"empty weights",
       RawEncoding().head().frame(1, "e").frame(2, "").frame(4, "l").frame(5, "m").frame(6, "r").frame(8, "a")},
  };
  for (const auto& [what, encoding] : rows) {
    const auto decoded = encoding.decoded();
    ASSERT_FALSE(decoded.has_value()) << what;
    EXPECT_EQ(decoded.error().code, Code::kInvalidArgument) << what;
  }
}

TEST(KeyspaceDifference, NamesTheFirstFieldThatDiffers) {
  const Keyspace base = golden_builder().seal().value();
  KeyspaceTag tag = KeyspaceTag::kNumerics;
  EXPECT_FALSE(Keyspace::first_difference(base, base, tag));
  EXPECT_EQ(tag, KeyspaceTag::kNumerics);

  for (const KeyspaceTag changed : kAllTags) {
    // A later field differs as well and must not be named.
    const Keyspace other = golden_builder().set(KeyspaceTag::kNumerics, "n").set(changed, "changed").seal().value();
    ASSERT_TRUE(Keyspace::first_difference(base, other, tag));
    EXPECT_EQ(tag, changed);
    ASSERT_TRUE(Keyspace::first_difference(other, base, tag));
    EXPECT_EQ(tag, changed);
  }
}

TEST(KeyspaceDifference, CountsAFieldThatOnlyOneHas) {
  const Keyspace with_rotation = golden_builder().set(KeyspaceTag::kRotation, "yes").seal().value();
  const Keyspace with_salt = golden_builder().set(KeyspaceTag::kSalt, "s").seal().value();
  KeyspaceTag tag{};
  ASSERT_TRUE(Keyspace::first_difference(with_rotation, with_salt, tag));
  EXPECT_EQ(tag, KeyspaceTag::kRotation);
  ASSERT_TRUE(Keyspace::first_difference(with_salt, golden_builder().seal().value(), tag));
  EXPECT_EQ(tag, KeyspaceTag::kSalt);
}

TEST(KeyspaceTagName, IsDistinctForEachTag) {
  std::set<std::string_view> names;
  for (const KeyspaceTag tag : kAllTags)
    names.insert(keyspace_tag_name(tag));
  EXPECT_EQ(names.size(), std::size(kAllTags));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(keyspace_tag_name(static_cast<KeyspaceTag>(999)), "unknown");
}

}  // namespace
}  // namespace rhizome
