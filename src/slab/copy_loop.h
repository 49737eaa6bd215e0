// The loop of the copies past the caches. Included by the files that are compiled for one processor each.
//
// Thread-safety: pure function of memory that is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rhizome {

// `move_line` moves 64 bytes to an aligned address without reading it.
template <class MoveLine>
void copy_by_lines(std::byte* to, const std::byte* from, size_t size, MoveLine move_line) {
  constexpr size_t kLine = 64;
  constexpr size_t kLinesAtOnce = 4;
  size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  if (head > size) head = size;
  std::memcpy(to, from, head);
  size_t at = head;
  for (; size - at >= kLine * kLinesAtOnce; at += kLine * kLinesAtOnce) {
    for (size_t line = 0; line < kLinesAtOnce; ++line)
      move_line(to + at + line * kLine, from + at + line * kLine);
  }
  for (; size - at >= kLine; at += kLine)
    move_line(to + at, from + at);
  std::memcpy(to + at, from + at, size - at);
}

}  // namespace rhizome
