// For tests: prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "block/token.h"

namespace rhizome {

// Follow from the seed; the same seed and a larger count give the same beginning.
inline std::vector<Token> random_tokens(uint32_t seed, size_t count, uint32_t vocabulary = 256) {
  std::mt19937_64 generator(seed * 0x9e3779b97f4a7c15ULL + 1);
  std::vector<Token> tokens(count);
  for (Token& token : tokens)
    token = static_cast<Token>(generator() % vocabulary);
  return tokens;
}

inline std::vector<Token> join(std::span<const Token> a, std::span<const Token> b) {
  std::vector<Token> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

inline std::vector<Token> head(std::span<const Token> tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

}  // namespace rhizome
