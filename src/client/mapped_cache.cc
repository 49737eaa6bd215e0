#include "client/mapped_cache.h"

#include <optional>
#include <utility>

namespace rhizome {

Result<std::unique_ptr<MappedCache>> MappedCache::open(const SharedMemory& index, Source& source) {
  Result<Mapping> memory = Mapping::attach_shared(index.descriptor, index.bytes, Mapping::Access::kRead);
  if (!memory) return fail(memory.error());
  Result<IndexReader> reader = IndexReader::open(memory->bytes());
  if (!reader) return fail(reader.error());
  return std::unique_ptr<MappedCache>(new MappedCache(std::move(*memory), std::move(*reader), source));
}

MappedCache::MappedCache(Mapping memory, IndexReader index, Source& source)
    : memory_(std::move(memory)), index_(std::move(index)), source_(source) {}

MappedCache::~MappedCache() = default;

Status MappedCache::add_segment(uint32_t number) {
  // Held while the node is asked: who needs the same one waits for it, too.
  const MutexLock lock(mutex_);
  if (directory_.knows(number * BlockDirectory::kEntriesOfASegment)) return {};
  Result<SharedMemory> shared = source_.directory_segment(number);
  if (!shared) return fail(shared.error());
  Result<Mapping> mapped = Mapping::attach_shared(shared->descriptor, shared->bytes, Mapping::Access::kRead);
  if (!mapped) return fail(mapped.error());
  const Status added = directory_.add(number, mapped->bytes());
  if (added) mappings_.push_back(std::move(*mapped));
  return added;
}

const Mapping* MappedCache::known_chunk(uint32_t number) const {
  const ChunkPage* const page = pages_[number / kChunksOfAPage].load(std::memory_order_acquire);  // pairs with chunk()
  return page == nullptr ? nullptr : (*page)[number % kChunksOfAPage].load(std::memory_order_acquire);
}

Result<const Mapping*> MappedCache::chunk(uint32_t number) {
  if (const Mapping* const known = known_chunk(number)) return known;
  const MutexLock lock(mutex_);
  if (const Mapping* const known = known_chunk(number)) return known;
  Result<SharedMemory> shared = source_.chunk(number);
  if (!shared) return fail(shared.error());
  Result<Mapping> mapped = Mapping::attach_shared(shared->descriptor, shared->bytes, Mapping::Access::kRead);
  if (!mapped) return fail(mapped.error());
  std::atomic<ChunkPage*>& page = pages_[number / kChunksOfAPage];
  if (page.load(std::memory_order_relaxed) == nullptr) {
    page.store(&owned_pages_.emplace_back(), std::memory_order_release);  // pairs with known_chunk()
  }
  const Mapping* const added = &mappings_.emplace_back(std::move(*mapped));
  (*page.load(std::memory_order_relaxed))[number % kChunksOfAPage].store(added, std::memory_order_release);
  return added;
}

Result<MappedCache::Block> MappedCache::find(Location location, uint64_t bytes) {
  const uint32_t segment = DirectoryReader::segment_of(location);
  if (!directory_.knows(location)) {
    const Status added = add_segment(segment);
    if (!added) return fail(added.error());
  }
  // Before it is looked for: a load that failed after it was not found shows the next time.
  const uint32_t loads_failed = directory_.loads_failed(location);
  const std::optional<BlockPlace> place = directory_.find(location);
  if (!place) return Block{.loads_failed = loads_failed};
  const Result<const Mapping*> memory = chunk(place->chunk);
  if (!memory) return fail(memory.error());
  const std::span<const std::byte> all = (*memory)->bytes();
  const uint64_t offset = uint64_t{place->unit} * BlockPlace::kUnitBytes;
  if (offset > all.size() || bytes > all.size() - offset) {
    return fail(Code::kDataLoss, "a block lies outside of its chunk");
  }
  return Block{.bytes = all.subspan(offset, bytes), .checksum = place->checksum};
}

}  // namespace rhizome
