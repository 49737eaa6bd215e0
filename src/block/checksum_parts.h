// XXH3-64 in parts, compiled for one instruction set: included, behind xxhash.h, by the files of checksum_variants.h.
//
// Thread-safety: as ChecksumStream.
#pragma once

#include "block/checksum.h"
#include "block/checksum_variants.h"

namespace rhizome {
namespace {

static_assert(sizeof(XXH3_state_t) <= ChecksumStream::kStateBytes && alignof(XXH3_state_t) <= 64);

XXH3_state_t* state_of(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

// With the state as it is at first: all zeros.
void begin_parts(void* state) {
  XXH3_64bits_reset(state_of(state));
}

void add_part(void* state, const void* bytes, size_t size) {
  XXH3_64bits_update(state_of(state), bytes, size);
}

uint64_t sum_of_parts(const void* state) {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state));
}

constexpr ChecksumParts kParts = {begin_parts, add_part, sum_of_parts};

}  // namespace
}  // namespace rhizome
