#include "bench/token_source.h"

#include <array>

namespace rhizome::bench {

uint64_t SeededNumbers::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

TokenSource::TokenSource(uint64_t seed) : even_(kTable), odd_(kTable) {
  SeededNumbers numbers(seed);
  for (size_t i = 0; i < kTable; ++i) {
    even_[i] = static_cast<Token>(numbers.below(kVocabulary));
    odd_[i] = static_cast<Token>(numbers.below(kVocabulary));
  }
}

void TokenSource::fill(std::span<Token> out, uint64_t sequence) const {
  SeededNumbers numbers(sequence * 0x9e3779b97f4a7c15ULL + 12345);
  std::array<Token, 4> shift;
  for (Token& token : shift)
    token = static_cast<Token>(numbers.below(kVocabulary));
  for (size_t i = 0; i < out.size(); ++i) {
    const Token table = (i % 2 == 0 ? even_ : odd_)[i % kTable];
    out[i] = (table + shift[i % 4]) % kVocabulary;
  }
}

}  // namespace rhizome::bench
