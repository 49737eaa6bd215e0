#include "residency/frequency_sketch.h"

#include <algorithm>
#include <bit>

namespace rhizome {
namespace {

constexpr uint64_t kCountersPerWord = 16;
constexpr uint64_t kCountersPerBlock = 16;
constexpr uint64_t kCountMax = 15;
// As often as there are blocks, times this, until the counters are halved.
constexpr uint64_t kSampleFactor = 10;
constexpr uint64_t kRowFactors[] = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0xd6e8feb86659fd93};

}  // namespace

FrequencySketch::FrequencySketch(uint64_t blocks) {
  const uint64_t counters = std::bit_ceil(std::max<uint64_t>(blocks, 64) * kCountersPerBlock);
  mask_ = counters - 1;
  added_max_ = std::max<uint64_t>(blocks, 64) * kSampleFactor;
  words_.resize(counters / kCountersPerWord);
}

uint64_t FrequencySketch::place(uint64_t hash, uint32_t row) const {
  const uint64_t mixed = (hash ^ (hash >> 29)) * kRowFactors[row];
  return (mixed ^ (mixed >> 32)) & mask_;
}

void FrequencySketch::add(uint64_t hash) {
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint64_t at = place(hash, row);
    const uint64_t shift = at % kCountersPerWord * 4;
    uint64_t& word = words_[at / kCountersPerWord];
    if ((word >> shift & kCountMax) < kCountMax) word += uint64_t{1} << shift;
  }
  if (++added_ >= added_max_) halve();
}

uint32_t FrequencySketch::count(uint64_t hash) const {
  uint64_t least = kCountMax;
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint64_t at = place(hash, row);
    least = std::min(least, words_[at / kCountersPerWord] >> (at % kCountersPerWord * 4) & kCountMax);
  }
  return static_cast<uint32_t>(least);
}

void FrequencySketch::halve() {
  for (uint64_t& word : words_)
    word = word >> 1 & 0x7777777777777777;
  added_ /= 2;
}

}  // namespace rhizome
