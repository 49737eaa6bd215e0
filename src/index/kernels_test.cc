#include "index/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "index/aes.h"
#include "machine/mapping.h"
#include "machine/random.h"

namespace rhizome {
namespace {

constexpr uint32_t kVectorSizes[] = {16, 32, 64, 128, 256};
constexpr uint32_t kAllSizes[] = {1, 2, 3, 4, 8, 15, 16, 17, 20, 32, 48, 64, 100, 128, 255, 256};
constexpr uint32_t kBlocksMax = 70;

// Of bytes, as FIPS 197 prints them.
AesState state_of(std::string_view hex) {
  AesState state{};
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t byte = static_cast<uint32_t>(std::stoul(std::string(hex.substr(2 * i, 2)), nullptr, 16));
    state[i / 4] |= byte << (i % 4 * 8);
  }
  return state;
}

std::vector<Token> random_tokens(std::mt19937_64& random, size_t count) {
  std::vector<Token> tokens(count);
  for (Token& token : tokens)
    token = static_cast<Token>(random());
  return tokens;
}

std::vector<uint64_t> fingerprints(const Kernels& kernels, const FingerprintKey& key,
                                   const std::vector<Token>& tokens) {
  std::vector<uint64_t> out(tokens.size() / kernels.block_tokens);
  kernels.fingerprint(key, tokens.data(), static_cast<uint32_t>(out.size()), out.data());
  return out;
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() : seed_(random_u64()), random_(seed_), key_(FingerprintKey::from_seed(seed_)) {
    RecordProperty("seed", std::to_string(seed_));
  }
  ~KernelsTest() override {
    if (HasFailure()) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed_));
  }

  uint64_t seed_;
  std::mt19937_64 random_;
  FingerprintKey key_;
};

// FIPS 197, appendices A.1 and C.1.
TEST(Aes, GivesThePublishedValues) {
  EXPECT_EQ(aes_expand(state_of("2b7e151628aed2a6abf7158809cf4f3c"))[10], state_of("d014f9a8c9ee2589e13f0cc8b6630ca6"));
  const AesSchedule schedule = aes_expand(state_of("000102030405060708090a0b0c0d0e0f"));
  EXPECT_EQ(schedule[1], state_of("d6aa74fdd2af72fadaa678f1d6ab76fe"));
  EXPECT_EQ(aes_round(state_of("00102030405060708090a0b0c0d0e0f0"), schedule[1]),
            state_of("89d810e8855ace682d1843d8cb128fe4"));
  EXPECT_EQ(aes_encrypt(schedule, state_of("00112233445566778899aabbccddeeff")),
            state_of("69c4e0d86a7b0430d8cdb78070b4c55a"));
}

// From a program in another language, with an AES of its own.
TEST(KernelsGolden, FingerprintsAreTheDocumentedOnes) {
  struct Golden {
    uint32_t block_tokens;
    uint64_t fingerprint;
  };
  constexpr Golden kGolden[] = {
      {1, 0xe99417a72b554749u},  {4, 0x1e0c24e1ee143fadu},   {15, 0xaf12b553dca80a99u},
      {16, 0x9d9f5d7e14b670b8u}, {20, 0xb36d12b6a40bb521u},  {32, 0x3d11948150bfe4e8u},
      {64, 0xafc66ddab5b0b404u}, {128, 0xcaf95d916a932733u}, {256, 0xe15fdd358a18b9e7u},
  };
  const FingerprintKey key = FingerprintKey::from_seed(2024);
  for (const Golden& golden : kGolden) {
    std::vector<Token> tokens(golden.block_tokens);
    for (uint32_t i = 0; i < golden.block_tokens; ++i)
      tokens[i] = i * 2654435761u + 12345;
    for (const Kernels& kernels : kernels_for(golden.block_tokens)) {
      EXPECT_EQ(fingerprints(kernels, key, tokens), std::vector{golden.fingerprint})
          << kernels.name << " " << golden.block_tokens;
    }
  }
}

TEST(KernelsFor, BeginsWithThePortableOnesAndEndsWithTheFastest) {
  for (uint32_t block_tokens = 1; block_tokens <= kKernelBlockTokensMax; ++block_tokens) {
    const std::vector<Kernels> variants = kernels_for(block_tokens);
    EXPECT_STREQ(variants.front().name, "portable");
    EXPECT_STREQ(variants.back().name, fastest_kernels(block_tokens).name);
    const bool vectors = std::ranges::count(kVectorSizes, block_tokens) != 0;
    for (const Kernels& kernels : variants) {
      EXPECT_EQ(kernels.block_tokens, block_tokens);
      EXPECT_TRUE(vectors || std::string_view(kernels.name) == "portable");
    }
  }
}

TEST_F(KernelsTest, AllVariantsGiveTheSameFingerprints) {
  for (const uint32_t block_tokens : kVectorSizes) {
    const std::vector<Token> tokens = random_tokens(random_, size_t{block_tokens} * kBlocksMax);
    const std::vector<uint64_t> expected = fingerprints(kernels_for(block_tokens).front(), key_, tokens);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      for (uint32_t blocks = 0; blocks <= kBlocksMax; ++blocks) {
        std::vector<uint64_t> found(kBlocksMax, 1);
        kernels.fingerprint(key_, tokens.data(), blocks, found.data());
        ASSERT_TRUE(std::equal(found.begin(), found.begin() + blocks, expected.begin()))
            << kernels.name << " " << block_tokens << " " << blocks;
        ASSERT_EQ(std::count(found.begin() + blocks, found.end(), 1u), kBlocksMax - blocks);
        ASSERT_EQ(kernels.match_fingerprints(key_, expected.data(), tokens.data(), blocks), blocks)
            << kernels.name << " " << block_tokens;
      }
    }
  }
}

TEST_F(KernelsTest, MatchesEndAtTheFirstBlockThatDiffers) {
  for (const uint32_t block_tokens : kAllSizes) {
    const std::vector<Token> tokens = random_tokens(random_, size_t{block_tokens} * kBlocksMax);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      const std::vector<uint64_t> stored = fingerprints(kernels, key_, tokens);
      for (uint32_t blocks = 0; blocks <= kBlocksMax; ++blocks) {
        ASSERT_EQ(kernels.match_tokens(tokens.data(), tokens.data(), blocks), blocks);
        ASSERT_EQ(kernels.match_words(stored.data(), stored.data(), blocks), blocks);
        std::vector<uint64_t> changed = stored;
        for (uint32_t at = 0; at < kBlocksMax; ++at) {
          changed[at] ^= uint64_t{1} << random_() % 64;
          // Others behind it must not matter.
          if (at + 2 < kBlocksMax) changed[at + 2] ^= 1;
          ASSERT_EQ(kernels.match_words(stored.data(), changed.data(), blocks), std::min(at, blocks)) << kernels.name;
          changed = stored;
        }
      }
    }
  }
}

TEST_F(KernelsTest, ADifferentFingerprintEndsTheMatch) {
  for (const uint32_t block_tokens : kVectorSizes) {
    const std::vector<Token> tokens = random_tokens(random_, size_t{block_tokens} * 13);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      const std::vector<uint64_t> stored = fingerprints(kernels, key_, tokens);
      for (uint32_t blocks = 0; blocks <= 13; ++blocks) {
        for (uint32_t at = 0; at < 13; ++at) {
          std::vector<uint64_t> changed = stored;
          changed[at] ^= uint64_t{1} << random_() % 64;
          if (at + 1 < 13) changed[12] ^= 1;
          ASSERT_EQ(kernels.match_fingerprints(key_, changed.data(), tokens.data(), blocks), std::min(at, blocks))
              << kernels.name << " " << block_tokens;
        }
      }
    }
  }
}

TEST_F(KernelsTest, AFlipInAnyTokenIsSeen) {
  constexpr uint32_t kBlocks = 7;
  for (const uint32_t block_tokens : kAllSizes) {
    const std::vector<Token> stored = random_tokens(random_, size_t{block_tokens} * kBlocks);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      const std::vector<uint64_t> stored_fingerprints = fingerprints(kernels, key_, stored);
      // The portable fingerprints are slow.
      const bool each = std::string_view(kernels.name) != "portable" || block_tokens <= 32;
      std::vector<Token> tokens = stored;
      for (size_t at = 0; at < tokens.size(); ++at) {
        const Token flip = Token{1} << random_() % 32;
        tokens[at] ^= flip;
        const uint32_t block = static_cast<uint32_t>(at / block_tokens);
        ASSERT_EQ(kernels.match_tokens(stored.data(), tokens.data(), kBlocks), block) << kernels.name << " " << at;
        ASSERT_EQ(kernels.match_tokens(stored.data(), tokens.data(), block), block) << kernels.name << " " << at;
        if (each || at % 37 == 0) {
          ASSERT_EQ(kernels.match_fingerprints(key_, stored_fingerprints.data(), tokens.data(), kBlocks), block)
              << kernels.name << " " << block_tokens << " " << at;
        }
        tokens[at] ^= flip;
      }
    }
  }
}

TEST_F(KernelsTest, ManyBlocksOfFewTokensHaveManyFingerprints) {
  const uint32_t block_tokens = 16;
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < 4096; ++i) {
    for (uint32_t bit = 0; bit < block_tokens; ++bit)
      tokens.push_back((i >> bit) & 1);
  }
  const std::vector<uint64_t> found = fingerprints(fastest_kernels(block_tokens), key_, tokens);
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
}

TEST_F(KernelsTest, TheOrderOfLanesAndStripesMatters) {
  for (const Kernels& kernels : kernels_for(64)) {
    std::vector<Token> tokens = random_tokens(random_, 64);
    const std::vector<uint64_t> before = fingerprints(kernels, key_, tokens);
    for (const size_t width : {4, 16}) {
      std::swap_ranges(tokens.begin(), tokens.begin() + width, tokens.begin() + 2 * width);
      EXPECT_NE(fingerprints(kernels, key_, tokens), before) << kernels.name << " " << width;
      std::swap_ranges(tokens.begin(), tokens.begin() + width, tokens.begin() + 2 * width);
    }
    EXPECT_EQ(fingerprints(kernels, key_, tokens), before);
  }
}

// A part of it that did nothing would not be noticed otherwise.
TEST_F(KernelsTest, EachByteOfTheSecretMatters) {
  std::vector<std::byte> secret(FingerprintKey::kSecretBytes);
  fill_random(secret);
  // What a byte of k3 changes in the lanes is one byte each, and they add up to nothing once in 256 blocks.
  const std::vector<Token> tokens = random_tokens(random_, 8 * 256);
  for (const Kernels& kernels : kernels_for(256)) {
    const auto under = [&] {
      return fingerprints(kernels, FingerprintKey::from_secret(std::span(secret).first<FingerprintKey::kSecretBytes>()),
                          tokens);
    };
    const std::vector<uint64_t> before = under();
    for (std::byte& byte : secret) {
      byte ^= std::byte{1};
      ASSERT_NE(under(), before) << kernels.name << " " << &byte - secret.data();
      byte ^= std::byte{1};
    }
  }
}

TEST_F(KernelsTest, KeysDiffer) {
  const std::vector<Token> tokens = random_tokens(random_, 16);
  const Kernels kernels = fastest_kernels(16);
  EXPECT_EQ(fingerprints(kernels, FingerprintKey::from_seed(1), tokens),
            fingerprints(kernels, FingerprintKey::from_seed(1), tokens));
  EXPECT_NE(fingerprints(kernels, FingerprintKey::from_seed(1), tokens),
            fingerprints(kernels, FingerprintKey::from_seed(2), tokens));
  EXPECT_NE(fingerprints(kernels, FingerprintKey::random(), tokens),
            fingerprints(kernels, FingerprintKey::random(), tokens));
}

// Bytes that end where the memory that may be touched ends.
class Edge {
 public:
  Edge(const void* bytes, size_t size) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t room = (size + page - 1) / page * page;
    mapping_ = std::move(*Mapping::anonymous(room + page));
    std::byte* const end = mapping_.bytes().data() + room;
    EXPECT_EQ(::mprotect(end, page, PROT_NONE), 0);
    at_ = end - size;
    if (size > 0) std::memcpy(at_, bytes, size);
  }

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(at_);
  }

 private:
  Mapping mapping_;
  std::byte* at_ = nullptr;
};

TEST_F(KernelsTest, NothingBehindTheBlocksIsTouched) {
  for (const uint32_t block_tokens : kAllSizes) {
    const std::vector<Token> tokens = random_tokens(random_, size_t{block_tokens} * 37);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      const std::vector<uint64_t> expected = fingerprints(kernels, key_, tokens);
      for (const uint32_t blocks : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 15u, 31u, 33u, 37u}) {
        const size_t token_bytes = sizeof(Token) * blocks * block_tokens;
        const Edge first(tokens.data(), token_bytes);
        const Edge second(tokens.data(), token_bytes);
        const Edge stored(expected.data(), sizeof(uint64_t) * blocks);
        const Edge out(std::vector<uint64_t>(blocks).data(), sizeof(uint64_t) * blocks);
        ASSERT_EQ(kernels.match_tokens(first.as<Token>(), second.as<Token>(), blocks), blocks);
        ASSERT_EQ(kernels.match_fingerprints(key_, stored.as<uint64_t>(), first.as<Token>(), blocks), blocks);
        kernels.fingerprint(key_, first.as<Token>(), blocks, out.as<uint64_t>());
        ASSERT_EQ(kernels.match_words(stored.as<uint64_t>(), out.as<uint64_t>(), blocks), blocks);
      }
    }
  }
}

TEST_F(KernelsTest, PointersNeedNoAlignment) {
  constexpr uint32_t kBlocks = 11;
  for (const uint32_t block_tokens : kAllSizes) {
    const std::vector<Token> tokens = random_tokens(random_, size_t{block_tokens} * kBlocks);
    const size_t bytes = tokens.size() * sizeof(Token);
    for (const Kernels& kernels : kernels_for(block_tokens)) {
      const std::vector<uint64_t> expected = fingerprints(kernels, key_, tokens);
      for (const size_t shift : {1u, 2u, 4u, 12u, 20u, 33u, 60u, 63u}) {
        std::vector<std::byte> token_room(bytes + shift);
        std::vector<std::byte> out_room(kBlocks * sizeof(uint64_t) + shift);
        auto* const moved = reinterpret_cast<Token*>(token_room.data() + shift);
        auto* const out = reinterpret_cast<uint64_t*>(out_room.data() + shift);
        std::memcpy(token_room.data() + shift, tokens.data(), bytes);
        kernels.fingerprint(key_, moved, kBlocks, out);
        ASSERT_EQ(std::memcmp(out_room.data() + shift, expected.data(), kBlocks * sizeof(uint64_t)), 0)
            << kernels.name << " " << shift;
        ASSERT_EQ(kernels.match_fingerprints(key_, out, moved, kBlocks), kBlocks) << kernels.name << " " << shift;
        ASSERT_EQ(kernels.match_tokens(moved, tokens.data(), kBlocks), kBlocks) << kernels.name << " " << shift;
        ASSERT_EQ(kernels.match_words(out, expected.data(), kBlocks), kBlocks) << kernels.name << " " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace rhizome
