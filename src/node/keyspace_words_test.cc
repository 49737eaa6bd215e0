#include "node/keyspace_words.h"

#include <gtest/gtest.h>

#include "store/store_fixture.h"

namespace rhizome {
namespace {

TEST(KeyspaceWords, OnlyWhatIsNotUsualIsSaid) {
  EXPECT_EQ(keyspace_words(*complete_keyspace().seal()), "engine, weights weights, dense");
  Digest digest{};
  digest[0] = std::byte{0x1f};
  const Keyspace full = *complete_keyspace()
                             .set(KeyspaceTag::kWeights, digest)
                             .set(KeyspaceTag::kAttention, "full")
                             .set(KeyspaceTag::kAdapters, std::string(72, 'a'))
                             .set(KeyspaceTag::kControlVector, "v")
                             .set(KeyspaceTag::kMedia, "m")
                             .set(KeyspaceTag::kNumerics, "n")
                             .set(KeyspaceTag::kSalt, "a secret")
                             .seal();
  EXPECT_EQ(keyspace_words(full),
            "engine, weights 1f000000, dense, full attention, 2 adapters, control vector, media, exact, private");
  EXPECT_EQ(keyspace_name(full), hex(full.digest()).substr(0, 12));
}

TEST(KeyspaceWords, WhateverAProgramPutsThereIsShortAndPrintable) {
  const std::string strange = std::string("a\"b\\c\n\0d\xff", 9) + std::string(1000, 'e');
  const Keyspace keyspace = *complete_keyspace()
                                 .set(KeyspaceTag::kEngine, strange)
                                 .set(KeyspaceTag::kWeights, strange)
                                 .set(KeyspaceTag::kMemoryClass, strange)
                                 .set(KeyspaceTag::kAttention, strange)
                                 .seal();
  const std::string words = keyspace_words(keyspace);
  EXPECT_EQ(words.size(), kKeyspaceWordsMax);
  EXPECT_TRUE(words.starts_with("a?b?c??d?eee")) << words;
  EXPECT_EQ(words.find_first_of("\"\\"), std::string::npos);
}

}  // namespace
}  // namespace rhizome
