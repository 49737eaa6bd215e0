// Mutations of valid encodings: whatever the decoder takes must be what a builder would have written,
// and nothing may be read outside the bytes given (the address sanitizer watches).

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "block/block_fixture.h"
#include "block/little_endian.h"

namespace rhizome {
namespace {

uint64_t seed_of_run() {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'305;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  // A keyspace with some optional fields and values of random lengths.
  std::vector<std::byte> valid() {
    KeyspaceBuilder builder = golden_builder();
    for (uint16_t tag = 1; tag <= 15; ++tag) {
      if (below(3) != 0) continue;
      std::string value(1 + below(40), 'x');
      for (char& c : value)
        c = static_cast<char>(random_());
      builder.set(static_cast<KeyspaceTag>(tag), value);
    }
    const Keyspace keyspace = builder.seal().value();
    return {keyspace.encoding().begin(), keyspace.encoding().end()};
  }

  void mutate(std::vector<std::byte>& bytes) {
    const size_t at = below(bytes.size());
    const auto here = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] ^= static_cast<std::byte>(1 << below(8));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<std::byte>(random_());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(here, static_cast<std::byte>(random_()));
        break;
      case 4:
        if (!bytes.empty()) bytes.erase(here);
        break;
      default: {
        const std::vector<std::byte> piece(here, here + static_cast<ptrdiff_t>(below(bytes.size() - at)));
        const auto target = bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size()));
        bytes.insert(target, piece.begin(), piece.end());
        break;
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

// Builds the fields that a decoded keyspace has anew, through the builder.
Result<Keyspace> rebuilt(std::span<const std::byte> encoding) {
  KeyspaceBuilder builder;
  for (size_t at = 8; at < encoding.size();) {
    const uint16_t tag = load_little<uint16_t>(encoding.data() + at);
    const uint32_t length = load_little<uint32_t>(encoding.data() + at + 2);
    builder.set(static_cast<KeyspaceTag>(tag), encoding.subspan(at + 6, length));
    at += 6 + length;
  }
  return builder.seal();
}

TEST(KeyspaceFuzz, TakesOnlyWhatABuilderWouldHaveWritten) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  Mutator mutator(seed);
  size_t taken = 0;
  size_t refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::byte> bytes = mutator.valid();
    if (round % 1000 == 0) {
      ASSERT_TRUE(Keyspace::decode(bytes).has_value());
    }
    for (size_t i = mutator.below(4) + 1; i > 0; --i)
      mutator.mutate(bytes);
    // An allocation of exactly this size, so that one byte too far is found.
    const std::vector<std::byte> exact(bytes.begin(), bytes.end());
    const auto decoded = Keyspace::decode(exact);
    if (!decoded) {
      ++refused;
      continue;
    }
    ++taken;
    ASSERT_TRUE(std::ranges::equal(decoded->encoding(), exact)) << round;
    const auto again = rebuilt(exact);
    ASSERT_TRUE(again.has_value()) << round;
    ASSERT_EQ(*again, *decoded) << round;
  }
  // Both ways are walked: flips inside values stay valid, the rest does not.
  EXPECT_GT(taken, 1'000u);
  EXPECT_GT(refused, 10'000u);
}

}  // namespace
}  // namespace rhizome
