#include "codec/rans.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codec/image_fixture.h"

namespace rhizome {
namespace {

RansFrequencies frequencies_of(std::span<const std::byte> symbols) {
  uint32_t counts[kRansSymbols] = {};
  for (const std::byte symbol : symbols)
    ++counts[std::to_integer<size_t>(symbol)];
  return rans_frequencies(counts);
}

// Symbols below `kinds`, each half as frequent as the one before when `skewed`.
std::vector<std::byte> some_symbols(size_t count, uint32_t kinds, bool skewed, std::mt19937_64& random) {
  std::vector<std::byte> symbols(count);
  for (std::byte& symbol : symbols) {
    const uint64_t word = random();
    const uint32_t chosen =
        skewed ? static_cast<uint32_t>(std::min(__builtin_ctzll(word | uint64_t{1} << 63), int(kinds - 1)))
               : static_cast<uint32_t>(word % kinds);
    symbol = static_cast<std::byte>(chosen);
  }
  return symbols;
}

std::vector<std::byte> encoded(std::span<const std::byte> symbols, const RansFrequencies& frequencies) {
  std::vector<std::byte> room(rans_stream_bytes_max(symbols.size()));
  const std::span<const std::byte> stream = rans_encode(symbols, frequencies, room);
  return {stream.begin(), stream.end()};
}

class RansTest : public testing::Test {
 protected:
  RansTest() : seed_(seed_of_run()), random_(seed_) {}

  uint64_t seed_;
  std::mt19937_64 random_;
};

TEST_F(RansTest, ComesBackForEveryAlphabet) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  for (const size_t rounds : {1u, 2u, 3u, 50u, 500u}) {
    for (uint32_t kinds = 1; kinds <= kRansSymbols; ++kinds) {
      for (const bool skewed : {false, true}) {
        const std::vector<std::byte> symbols = some_symbols(rounds * kRansLanes, kinds, skewed, random_);
        const RansFrequencies frequencies = frequencies_of(symbols);
        ASSERT_TRUE(rans_frequencies_valid(frequencies));
        const std::vector<std::byte> bytes = encoded(symbols, frequencies);
        const RansTables tables(frequencies);
        for (const RansKernel& kernel : rans_kernels()) {
          RansStream stream;
          ASSERT_TRUE(stream.open(bytes));
          std::vector<std::byte> back(symbols.size());
          ASSERT_TRUE(kernel.decode(stream, tables, back)) << kernel.name << " " << kinds;
          ASSERT_TRUE(stream.is_finished()) << kernel.name << " " << kinds;
          ASSERT_EQ(back, symbols) << kernel.name << " " << kinds;
        }
      }
    }
  }
}

TEST_F(RansTest, IsAsDenseAsTheEntropy) {
  const std::vector<std::byte> symbols = some_symbols(1 << 16, 20, true, random_);
  // Two bits a symbol: 1/2 + 2/4 + 3/8 + ...
  const double bits = 8.0 * static_cast<double>(encoded(symbols, frequencies_of(symbols)).size() - kRansStatesBytes) /
                      static_cast<double>(symbols.size());
  EXPECT_NEAR(bits, 2.0, 0.02);
}

TEST_F(RansTest, FrequenciesAddUpWhateverTheCounts) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  for (int round = 0; round < 20'000; ++round) {
    uint32_t counts[kRansSymbols] = {};
    const size_t kinds = 1 + random_() % kRansSymbols;
    for (size_t i = 0; i < kinds; ++i)
      counts[random_() % kRansSymbols] = static_cast<uint32_t>(random_() >> (32 + random_() % 32)) | 1;
    const RansFrequencies frequencies = rans_frequencies(counts);
    ASSERT_TRUE(rans_frequencies_valid(frequencies));
    for (size_t i = 0; i < kRansSymbols; ++i)
      ASSERT_TRUE(counts[i] == 0 || frequencies[i] > 0);
  }
}

TEST_F(RansTest, AStreamThatIsCutOrLongerIsNotFinished) {
  const std::vector<std::byte> symbols = some_symbols(8 * kRansLanes, 20, true, random_);
  const RansFrequencies frequencies = frequencies_of(symbols);
  const RansTables tables(frequencies);
  const std::vector<std::byte> whole = encoded(symbols, frequencies);
  for (size_t size = 0; size <= whole.size() + 4; ++size) {
    if (size == whole.size()) continue;
    std::vector<std::byte> bytes = whole;
    bytes.resize(size);
    bytes.shrink_to_fit();
    for (const RansKernel& kernel : rans_kernels()) {
      RansStream stream;
      std::vector<std::byte> back(symbols.size());
      EXPECT_FALSE(stream.open(bytes) && kernel.decode(stream, tables, back) && stream.is_finished())
          << kernel.name << " " << size;
    }
  }
}

TEST_F(RansTest, KernelsAgreeOnDamage) {
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed_));
  const std::vector<std::byte> symbols = some_symbols(32 * kRansLanes, 20, true, random_);
  const RansFrequencies frequencies = frequencies_of(symbols);
  const RansTables tables(frequencies);
  const std::vector<std::byte> whole = encoded(symbols, frequencies);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes = whole;
    bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1 << random_() % 8);
    if (round % 3 == 0) bytes.resize(kRansStatesBytes + random_() % (bytes.size() - kRansStatesBytes) / 2 * 2);
    bytes.shrink_to_fit();
    bool first_verdict = false;
    std::vector<std::byte> first_back;
    for (const RansKernel& kernel : rans_kernels()) {
      RansStream stream;
      std::vector<std::byte> back(symbols.size());
      const bool verdict = stream.open(bytes) && kernel.decode(stream, tables, back) && stream.is_finished();
      if (&kernel == &rans_kernels().front()) {
        first_verdict = verdict;
        first_back = back;
        refused += verdict ? 0 : 1;
      }
      ASSERT_EQ(verdict, first_verdict) << kernel.name << " " << round;
      if (verdict) {
        ASSERT_EQ(back, first_back) << kernel.name << " " << round;
      }
    }
  }
  EXPECT_GT(refused, 2900);
}

TEST(Rans, RefusesFrequenciesThatDoNotAddUp) {
  RansFrequencies frequencies{};
  EXPECT_FALSE(rans_frequencies_valid(frequencies));
  frequencies[3] = kRansTotal;  // the whole range: fits no entry
  EXPECT_FALSE(rans_frequencies_valid(frequencies));
  frequencies[3] = kRansTotal - 1;
  EXPECT_FALSE(rans_frequencies_valid(frequencies));
  frequencies[9] = 1;
  EXPECT_TRUE(rans_frequencies_valid(frequencies));
  frequencies[10] = 1;
  EXPECT_FALSE(rans_frequencies_valid(frequencies));
}

}  // namespace
}  // namespace rhizome
