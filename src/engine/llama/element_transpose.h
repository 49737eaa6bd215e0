// Rows of elements turned into columns: between an engine that keeps values element by element and a payload, which
// keeps them token by token.
//
// Thread-safety: a pure function over the caller's memory, which may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rhizome {

// Where `rows` of `columns` elements lie, one row `stride_bytes` behind the other.
struct ElementGrid {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint32_t element_bytes = 0;
  uint64_t stride_bytes = 0;
};

// Element (row, column) of `from` goes to element (column, row) of `to`, whose rows are `to_stride_bytes` apart. The
// two do not overlap.
void transpose_elements(const std::byte* from, const ElementGrid& grid, std::byte* to, uint64_t to_stride_bytes);

}  // namespace rhizome
