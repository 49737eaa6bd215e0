#include "codec/workspace.h"

#include "codec/zstd_contexts.h"

namespace rhizome {

CodecWorkspace::CodecWorkspace() = default;
CodecWorkspace::~CodecWorkspace() = default;

std::span<std::byte> CodecWorkspace::take(Purpose purpose, size_t bytes) {
  Piece& piece = pieces_[static_cast<size_t>(purpose)];
  if (piece.size < bytes) {
    piece.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
    piece.size = bytes;
  }
  return {piece.bytes.get(), bytes};
}

ZstdContexts& CodecWorkspace::zstd() {
  if (zstd_ == nullptr) zstd_ = std::make_unique<ZstdContexts>();
  return *zstd_;
}

}  // namespace rhizome
