// How often a block was asked for lately, about: a count-min sketch of 4-bit counters, halved now and then so that it
// follows what is asked for now (TinyLFU; Einziger, Friedman, Manes 2017).
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace rhizome {

class FrequencySketch {
 public:
  // Memory for about so many different blocks: 8 to 16 bytes each.
  explicit FrequencySketch(uint64_t blocks);

  // `hash` is any well mixed number that names the block.
  void add(uint64_t hash);
  // 0 to 15; never less than the true count since the counters were halved last.
  uint32_t count(uint64_t hash) const;

  uint64_t bytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  static constexpr uint32_t kRows = 4;

  uint64_t place(uint64_t hash, uint32_t row) const;
  void halve();

  uint64_t mask_;  // of counters
  uint64_t added_ = 0;
  uint64_t added_max_;
  std::vector<uint64_t> words_;
};

}  // namespace rhizome
