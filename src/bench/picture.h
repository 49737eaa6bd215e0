// A picture of how many prompt tokens were computed, round by round, stock beside Rhizome.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rhizome::bench {

struct PicturePanel {
  std::string title;                   // "8 agents take turns"
  std::vector<uint64_t> stock_rounds;  // computed prompt tokens
  std::vector<uint64_t> our_rounds;
  uint64_t ideal_tokens = 0;
};

// An SVG document; empty when there is no panel.
std::string draw_picture(const std::string& subtitle, const std::vector<PicturePanel>& panels);

}  // namespace rhizome::bench
