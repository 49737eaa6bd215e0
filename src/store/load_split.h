// How blocks of a prefix that are not in memory could be had fastest by an engine that computes from the front while it
// loads from the back: where the two would meet.
//
// Thread-safety: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rhizome {

struct LoadSplit {
  // Block numbers: [compute_from, load_from) are for computing, what is not in memory behind it for loading. All three
  // places are one when there is nothing to load.
  size_t compute_from = 0;
  size_t load_from = 0;
  size_t end = 0;
  // Of blocks that are not in memory.
  uint64_t compute_tokens = 0;
  uint64_t load_tokens = 0;
  // Predicted: of the split, of loading all, of computing all. Zero, and nothing is for computing, before both costs
  // are known.
  double split_seconds = 0;
  double load_seconds = 0;
  double compute_seconds = 0;
};

}  // namespace rhizome
