// Memory that encoding and decoding need beside the caller's buffers, kept from one image to the next.
//
// Thread-safety: belongs to one thread at a time. Grows with the largest section; nothing in it outlives a call.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace rhizome {

struct ZstdContexts;

class CodecWorkspace {
 public:
  enum class Purpose : uint8_t { kExponents = 0, kStream = 1, kPlanes = 2, kOpened = 3 };

  CodecWorkspace();
  ~CodecWorkspace();
  CodecWorkspace(const CodecWorkspace&) = delete;
  CodecWorkspace& operator=(const CodecWorkspace&) = delete;

  // Bytes of any value, until the next call for the same purpose.
  std::span<std::byte> take(Purpose purpose, size_t bytes);
  // Made at the first call.
  ZstdContexts& zstd();

 private:
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::array<Piece, 4> pieces_;
  std::unique_ptr<ZstdContexts> zstd_;
};

}  // namespace rhizome
