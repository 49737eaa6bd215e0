// Tokens that look like text's: any sequence by number, the same every time, as fast as memory is written.
//
// Thread-safety: the object is only read after it was made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block/token.h"

namespace rhizome::bench {

// splitmix64.
class SeededNumbers {
 public:
  explicit SeededNumbers(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Below `bound`.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

class TokenSource {
 public:
  explicit TokenSource(uint64_t seed);

  // Sequence number `sequence`, from its beginning. Two sequences differ from the first four tokens on.
  void fill(std::span<Token> out, uint64_t sequence) const;

 private:
  static constexpr size_t kTable = 1 << 16;
  static constexpr Token kVocabulary = 1 << 17;

  std::vector<Token> even_;
  std::vector<Token> odd_;
};

}  // namespace rhizome::bench
