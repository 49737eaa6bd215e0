#include "store/adoptable.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "block/checksum.h"
#include "slab/block_directory.h"
#include "slab/chunk_cut.h"

namespace rhizome {
namespace {

struct DigestHash {
  size_t operator()(const Digest& digest) const { return BlockKeyHash()(BlockKey{digest}); }
};

class Search {
 public:
  Search(std::vector<KeptMemory> kept, uint32_t block_tokens) : block_tokens_(block_tokens) {
    for (KeptMemory& piece : kept) {
      if (piece.kind == KeptKind::kKeyspaces) {
        for (RecordedKeyspace& read : read_keyspace_page(piece.memory.bytes()))
          keyspaces_.try_emplace(read.keyspace.digest(), std::move(read));
      } else if (piece.kind == KeptKind::kDirectory) {
        directories_.push_back(std::move(piece));
      } else {
        add_chunk(std::move(piece));
      }
    }
  }

  Adoptable find() {
    Adoptable found;
    for (const KeptMemory& directory : directories_) {
      if (directory.memory.bytes().size() != BlockDirectory::kSegmentBytes) continue;
      const auto* const entries = reinterpret_cast<const DirectoryEntry*>(directory.memory.bytes().data());
      for (uint32_t i = 0; i < BlockDirectory::kEntriesOfASegment; ++i) {
        // A block that was about to leave is whole until its entry is gone.
        const std::optional<BlockPlace> place = entries[i].find_or_leaving();
        if (place) found.offered_blocks += add_block(directory.life, *place) ? 1 : 0;
      }
    }
    std::unordered_set<Digest, DigestHash> used;
    for (File& file : files_) {
      if (file.blocks.empty()) continue;
      for (const AdoptableBlock& block : file.blocks)
        used.insert(block.identity.keyspace);
      found.chunks.push_back({std::move(file.memory), std::move(file.blocks)});
    }
    for (auto& [digest, keyspace] : keyspaces_) {
      if (used.contains(digest)) found.keyspaces.push_back(std::move(keyspace));
    }
    std::ranges::stable_sort(found.chunks, std::greater(), [](const auto& chunk) { return chunk.blocks.size(); });
    return found;
  }

 private:
  struct File {
    Mapping memory;
    uint64_t stride = 0;
    std::vector<AdoptableBlock> blocks = {};
    std::unordered_set<uint64_t> offsets = {};
  };

  void add_chunk(KeptMemory piece) {
    const auto [known, is_new] = file_numbers_.try_emplace(piece.memory.file_number(), files_.size());
    by_name_[{piece.life, piece.number}] = known->second;
    if (is_new) files_.push_back({std::move(piece.memory)});
  }

  // Whether it is a block that was not named before; it may still be refused.
  bool add_block(uint64_t life, const BlockPlace& place) {
    const auto named = by_name_.find({life, place.chunk});
    if (named == by_name_.end()) return true;
    File& file = files_[named->second];
    const uint64_t offset = uint64_t{place.unit} * BlockPlace::kUnitBytes;
    if (file.offsets.contains(offset)) return false;
    std::optional<AdoptableBlock> block = check(file, offset, place.checksum);
    if (!block) return true;
    file.stride = stride_of(block->slot.bytes);
    file.offsets.insert(offset);
    file.blocks.push_back(std::move(*block));
    return true;
  }

  std::optional<AdoptableBlock> check(const File& file, uint64_t offset, uint64_t sum) const {
    const std::span<const std::byte> all = file.memory.bytes();
    const uint64_t head_bytes = identity_bytes(block_tokens_);
    if (offset > all.size() || head_bytes > all.size() - offset) return std::nullopt;
    Result<IdentityRecord> identity = decode_identity(all.subspan(offset, head_bytes), block_tokens_);
    if (!identity || identity->tokens.size() != block_tokens_) return std::nullopt;
    const auto keyspace = keyspaces_.find(identity->keyspace);
    if (keyspace == keyspaces_.end() || keyspace->second.geometry.tokens_count != block_tokens_) return std::nullopt;
    const uint64_t bytes = head_bytes + keyspace->second.geometry.raw_bytes();
    if (bytes > all.size() - offset) return std::nullopt;
    // Slots of one chunk have one stride, so what does not fit in with the first is none of them.
    const uint64_t stride = stride_of(bytes);
    if ((file.stride != 0 && stride != file.stride) || offset % stride != 0) return std::nullopt;
    if (offset / stride >= kChunkSlotsMax || stride > all.size() - offset) return std::nullopt;
    if (checksum(all.subspan(offset, bytes)) != sum) return std::nullopt;
    return AdoptableBlock{{offset, bytes, sum}, std::move(*identity)};
  }

  const uint32_t block_tokens_;
  std::unordered_map<Digest, RecordedKeyspace, DigestHash> keyspaces_;
  std::vector<KeptMemory> directories_;
  std::vector<File> files_;
  std::map<Mapping::FileNumber, size_t> file_numbers_;
  std::map<std::pair<uint64_t, uint32_t>, size_t> by_name_;  // life and number
};

}  // namespace

Adoptable find_adoptable(std::vector<KeptMemory> kept, uint32_t block_tokens) {
  return Search(std::move(kept), block_tokens).find();
}

}  // namespace rhizome
