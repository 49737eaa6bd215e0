// Where each key's record is.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "block/block_key.h"
#include "concurrency/mutex.h"

namespace rhizome {

struct RecordPlace {
  uint32_t segment = 0;
  uint32_t page = 0;
  uint64_t image_bytes = 0;

  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

class DiskIndex {
 public:
  std::optional<RecordPlace> find(const BlockKey& key) const;
  // What was there before.
  std::optional<RecordPlace> put(const BlockKey& key, const RecordPlace& place);
  // True: it was there, and nothing else.
  bool erase(const BlockKey& key, const RecordPlace& place);
  // It was read: worth keeping when its segment is reclaimed.
  void count_read(const BlockKey& key, const RecordPlace& place);
  // How often the record was read; nothing when it is not the key's record any more.
  std::optional<uint32_t> reads(const BlockKey& key, uint32_t segment) const;
  void clear();

  uint64_t images() const;
  uint64_t bytes() const;  // of the records

 private:
  struct Entry {
    RecordPlace place;
    uint32_t reads = 0;
  };

  mutable Mutex mutex_;
  std::unordered_map<BlockKey, Entry, BlockKeyHash> entries_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rhizome
