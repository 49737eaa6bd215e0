#include "index/index_memory.h"

#include <algorithm>
#include <new>

#include "contract/check.h"

namespace rhizome {
namespace {

uint64_t whole_pages(uint64_t bytes) {
  constexpr uint64_t kPage = SharedIndexHeader::kPageBytes;
  return (bytes + kPage - 1) / kPage * kPage;
}

uint32_t units_of(uint64_t arena_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(arena_bytes / kUnitBytes, UINT32_MAX));
}

uint64_t edges_bytes(uint32_t units) {
  return whole_pages(EdgeShape::fixed(units).bytes());
}

}  // namespace

struct IndexMemory::Parts {
  std::byte* header = nullptr;
  std::byte* edges = nullptr;
  std::span<std::byte> arena = {};

  // With the largest arena that leaves room for its edge table.
  static Parts of(std::span<std::byte> shared) {
    if (shared.empty()) return {};
    uint32_t units = 0;
    for (uint32_t bit = 1u << 31; bit > 0; bit /= 2) {
      if (shared_bytes((uint64_t{units} + bit) * kUnitBytes) <= shared.size()) units += bit;
    }
    std::byte* const edges = shared.data() + SharedIndexHeader::kPageBytes;
    return {shared.data(), edges, {edges + edges_bytes(units), uint64_t{units} * kUnitBytes}};
  }
};

IndexMemory::IndexMemory(uint64_t arena_bytes, std::span<std::byte> shared)
    : IndexMemory(arena_bytes, Parts::of(shared)) {
  if (header_ != nullptr) header_->bytes = shared.size();
}

IndexMemory::IndexMemory(uint64_t arena_bytes, const Parts& parts)
    : header_(parts.header == nullptr ? nullptr : new(parts.header) SharedIndexHeader()),
      arena_(arena_bytes, parts.arena),
      edges_(arena_, parts.edges) {
  if (header_ == nullptr) return;
  header_->edges_offset = static_cast<uint64_t>(parts.edges - parts.header);
  header_->arena_offset = static_cast<uint64_t>(parts.arena.data() - parts.header);
  header_->units = arena_.units();
  header_->epoch.store(1, std::memory_order_relaxed);
}

uint64_t IndexMemory::shared_bytes(uint64_t arena_bytes) {
  const uint32_t units = units_of(arena_bytes);
  return SharedIndexHeader::kPageBytes + edges_bytes(units) + whole_pages(uint64_t{units} * kUnitBytes);
}

void IndexMemory::publish(const FingerprintKey& key, uint32_t block_tokens, uint64_t payload_bytes) {
  if (header_ == nullptr) return;
  header_->key = key;
  header_->block_tokens = block_tokens;
  header_->payload_bytes = static_cast<uint32_t>(payload_bytes);
  header_->magic = SharedIndexHeader::kMagic;
}

Result<IndexMemory::Layout> IndexMemory::layout_of(std::span<const std::byte> memory) {
  const auto* const header = reinterpret_cast<const SharedIndexHeader*>(memory.data());
  if (memory.size() < SharedIndexHeader::kPageBytes || header->magic != SharedIndexHeader::kMagic) {
    return fail(Code::kFailedPrecondition, "not the memory of an index, or of another version");
  }
  Layout layout;
  layout.units = header->units;
  layout.block_tokens = header->block_tokens;
  layout.payload_bytes = header->payload_bytes;
  const uint64_t edges = SharedIndexHeader::kPageBytes;
  const uint64_t arena = edges + edges_bytes(layout.units);
  const bool fits = header->bytes == memory.size() && header->edges_offset == edges && header->arena_offset == arena &&
                    layout.units > 0 && arena + uint64_t{layout.units} * kUnitBytes <= memory.size() &&
                    layout.block_tokens > 0 && layout.block_tokens <= kKernelBlockTokensMax;
  if (!fits) return fail(Code::kInvalidArgument, "the memory of an index does not fit its description");
  layout.edges = memory.data() + edges;
  layout.arena = memory.data() + arena;
  return layout;
}

}  // namespace rhizome
