#include "engine/llama/element_transpose.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rhizome {
namespace {

// What is read and what is written of a tile fit into the nearest cache together.
constexpr uint64_t kTileRows = 64;
constexpr uint64_t kTileColumns = 32;
// Lines so far apart, and as far from each other, push each other out of that cache.
constexpr uint64_t kFarBytes = 4096;
constexpr uint64_t kLanes = 8;
using Lanes [[gnu::vector_size(16)]] = uint16_t;
using Square = std::array<Lanes, kLanes>;

// Interleaves row i with row i + 4. Done three times it turns rows into columns: an element's place is six bits, three
// for the row and three for the column, and each time they rotate by one.
Square rotate(const Square& in) {
  Square out;
  for (uint64_t i = 0; i < kLanes / 2; ++i) {
    out[2 * i] = __builtin_shufflevector(in[i], in[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    out[2 * i + 1] = __builtin_shufflevector(in[i], in[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  return out;
}

void transpose_square(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride) {
  Square square;
  for (uint64_t i = 0; i < kLanes; ++i)
    std::memcpy(&square[i], from + i * from_stride, sizeof(Lanes));
  square = rotate(rotate(rotate(square)));
  for (uint64_t i = 0; i < kLanes; ++i)
    std::memcpy(to + i * to_stride, &square[i], sizeof(Lanes));
}

// `bytes`: of an element; a constant where the caller knows it.
inline void transpose_plain(const std::byte* from, const ElementGrid& grid, std::byte* to, uint64_t to_stride,
                            uint64_t bytes) {
  for (uint64_t row = 0; row < grid.rows; ++row) {
    for (uint64_t column = 0; column < grid.columns; ++column)
      std::memcpy(to + column * to_stride + row * bytes, from + row * grid.stride_bytes + column * bytes, bytes);
  }
}

void transpose_squares(const std::byte* from, const ElementGrid& tile, std::byte* to, uint64_t to_stride) {
  for (uint64_t row = 0; row < tile.rows; row += kLanes) {
    for (uint64_t column = 0; column < tile.columns; column += kLanes) {
      transpose_square(from + row * tile.stride_bytes + column * 2, tile.stride_bytes,
                       to + column * to_stride + row * 2, to_stride);
    }
  }
}

void transpose_pairs(const std::byte* from, const ElementGrid& tile, std::byte* to, uint64_t to_stride) {
  if (to_stride < kFarBytes) return transpose_squares(from, tile, to, to_stride);
  // Each far line is then written once and as a whole.
  std::array<std::array<std::byte, kTileRows * 2>, kTileColumns> turned;
  transpose_squares(from, tile, turned[0].data(), kTileRows * 2);
  for (uint64_t column = 0; column < tile.columns; ++column)
    std::memcpy(to + column * to_stride, turned[column].data(), tile.rows * 2);
}

void transpose_tile(const std::byte* from, const ElementGrid& tile, std::byte* to, uint64_t to_stride) {
  if (tile.element_bytes == 4) return transpose_plain(from, tile, to, to_stride, 4);
  if (tile.element_bytes != 2) return transpose_plain(from, tile, to, to_stride, tile.element_bytes);
  if (tile.rows % kLanes != 0 || tile.columns % kLanes != 0) return transpose_plain(from, tile, to, to_stride, 2);
  transpose_pairs(from, tile, to, to_stride);
}

}  // namespace

void transpose_elements(const std::byte* from, const ElementGrid& grid, std::byte* to, uint64_t to_stride_bytes) {
  const uint64_t bytes = grid.element_bytes;
  for (uint64_t row = 0; row < grid.rows; row += kTileRows) {
    for (uint64_t column = 0; column < grid.columns; column += kTileColumns) {
      ElementGrid tile = grid;
      tile.rows = std::min(kTileRows, grid.rows - row);
      tile.columns = std::min(kTileColumns, grid.columns - column);
      transpose_tile(from + row * grid.stride_bytes + column * bytes, tile, to + column * to_stride_bytes + row * bytes,
                     to_stride_bytes);
    }
  }
}

}  // namespace rhizome
