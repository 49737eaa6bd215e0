// Who keeps the memory of a store beyond the end of its process, so that the next one finds the blocks in it again.
//
// Thread-safety: implementations may be called from any thread, with locks held: they call nobody back and do not wait
// for long.
#pragma once

#include <cstdint>

#include "machine/mapping.h"

namespace rhizome {

enum class KeptKind : uint32_t { kChunk = 1, kDirectory = 2, kKeyspaces = 3 };

class MemoryKeeper {
 public:
  virtual ~MemoryKeeper() = default;
  // Before anything in it is committed. When it cannot be kept, what will be in it is lost with the process.
  virtual void keep(KeptKind kind, uint32_t number, const Mapping& memory) = 0;
  virtual void drop(KeptKind kind, uint32_t number) = 0;
};

// What a former process has left, checked and mapped read-only. Numbers are one for each life and kind.
struct KeptMemory {
  KeptKind kind = KeptKind::kChunk;
  uint64_t life = 0;
  uint32_t number = 0;
  Mapping memory;
};

}  // namespace rhizome
