#include "engine/llama/element_transpose.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(ElementTranspose, PutsEachElementWhereItBelongsAndTouchesNothingElse) {
  const uint32_t seed = 41;
  std::mt19937 random(seed);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    ElementGrid grid;
    const uint32_t widths[] = {1, 2, 2, 2, 3, 4, 8};
    grid.element_bytes = widths[random() % 7];
    // Every second time what the fast path takes whole.
    const uint64_t unit = round % 2 == 0 ? 8 : 1;
    grid.rows = unit * (1 + random() % (72 / unit));
    grid.columns = unit * (1 + random() % (72 / unit));
    grid.stride_bytes = grid.columns * grid.element_bytes + random() % 9;
    const uint64_t to_stride = grid.rows * grid.element_bytes + random() % 9;
    std::vector<std::byte> from(1 + grid.rows * grid.stride_bytes);
    for (std::byte& byte : from)
      byte = static_cast<std::byte>(random());
    std::vector<std::byte> to(1 + grid.columns * to_stride, std::byte{0xee});
    std::vector<std::byte> expected = to;
    for (uint64_t row = 0; row < grid.rows; ++row) {
      for (uint64_t column = 0; column < grid.columns; ++column) {
        for (uint32_t b = 0; b < grid.element_bytes; ++b) {
          expected[1 + column * to_stride + row * grid.element_bytes + b] =
              from[1 + row * grid.stride_bytes + column * grid.element_bytes + b];
        }
      }
    }
    // From an odd address, as in a blob.
    transpose_elements(from.data() + 1, grid, to.data() + 1, to_stride);
    ASSERT_EQ(to, expected) << grid.rows << " x " << grid.columns << " of " << grid.element_bytes;
  }
}

}  // namespace
}  // namespace rhizome
