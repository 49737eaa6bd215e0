// Reads an index that lies in the memory of another process, which maps it writable and shares it read-only.
//
// A look-up makes no system call, takes no lock, and writes one word of the reader's own: the hazard slot that keeps
// what was found (remote_readers.h). What it reads may change under it, or be anything at all if the other process
// went mad: it ends, it stays inside the mapping, and what it returns was so while the slot was set.
//
// States of a hazard slot: 0, or the run that the reader uses. Only the reader writes it. The evictor, in the other
// process, looks at it after it has marked what should leave.
//
// Pairs: the sequentially consistent fence in lookup() with the one in Eviction::settle(). Releasing a slot is a
// release that the acquire in RemoteReaders::collect() sees: what was read is read.
//
// Thread-safety: immutable once made; each thread needs a slot of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "block/token.h"
#include "contract/result.h"
#include "index/index_types.h"

namespace rhizome {

class ExactPolicy;
class FingerprintPolicy;

using HazardSlot = std::atomic<uint32_t>;

struct RemoteMatch {
  uint32_t blocks = 0;         // found, from the beginning of the prompt
  uint32_t run = 0;            // what the slot holds; 0: nothing was found
  bool root_is_stale = false;  // ask for the keyspace's root again
  uint32_t retries = 0;
};

template <class Policy>
class BasicIndexReader {
 public:
  // `memory` is all of what the index lies in, and outlives the reader. kFailedPrecondition: not that, or of another
  // version. kInvalidArgument: it does not fit its own description, or is an index of another policy.
  static Result<BasicIndexReader> open(std::span<const std::byte> memory);
  BasicIndexReader(BasicIndexReader&&) noexcept;
  ~BasicIndexReader();

  uint32_t block_tokens() const;

  // The longest stored prefix in whole blocks, which stays as it is while `slot`, zero before, holds match.run. `out`
  // receives the locations and has room for all whole blocks of `prompt`.
  RemoteMatch lookup(SharedRoot root, std::span<const Token> prompt, std::span<Location> out, HazardSlot& slot) const;
  static void release(HazardSlot& slot) { slot.store(0, std::memory_order_release); }
  // False: the keyspace was cleared, or a new epoch began; ask for its root again.
  bool is_current(SharedRoot root) const;
  // How many blocks lookup() would find.
  uint32_t peek(SharedRoot root, std::span<const Token> prompt) const;

 private:
  struct State;
  explicit BasicIndexReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

using IndexReader = BasicIndexReader<ExactPolicy>;
using FingerprintIndexReader = BasicIndexReader<FingerprintPolicy>;

}  // namespace rhizome
