// What can be taken over of the memory that a former process has left: chunks, and which blocks lie in them. Nothing in
// it is believed: every number is checked against the memory that it points into, the identity of each block is
// decoded, and its bytes have to have the checksum that its directory entry says. The index of that process is not
// looked at; it is made anew from the identities.
//
// Thread-safety: plain values and functions.
#pragma once

#include <cstdint>
#include <vector>

#include "block/identity.h"
#include "machine/mapping.h"
#include "slab/memory_keeper.h"
#include "slab/slab.h"
#include "store/keyspace_book.h"

namespace rhizome {

struct AdoptableBlock {
  AdoptedSlot slot;
  IdentityRecord identity;
};

// A chunk, with at least one block, all of one stride.
struct AdoptableChunk {
  Mapping memory;
  std::vector<AdoptableBlock> blocks;
};

struct Adoptable {
  std::vector<AdoptableChunk> chunks;       // those with most blocks first
  std::vector<RecordedKeyspace> keyspaces;  // of all those blocks, each once
  uint64_t offered_blocks = 0;              // that the directories name
};

// Several lives may have left memory: a process that has taken over an earlier one's may have ended before that one's
// directory was dropped. Then a chunk is there under two names, and is taken once.
Adoptable find_adoptable(std::vector<KeptMemory> kept, uint32_t block_tokens);

}  // namespace rhizome
