// Blocks that are written around memory: committed when no slot could be had, on their way into the tier, and nowhere
// else. Consecutive blocks of one draft are a chain. A block can be published once the tier has it and the block before
// it was; when that will not happen any more, it is lost, and so is all of the chain behind it.
//
//   under way -> in the tier   end(), with the number that the block table has given it
//   under way -> lost          end() without one
//   in the tier -> published   resolve(), in order, if `publish` agrees
//   in the tier -> lost        resolve(), when one before it is lost or `publish` refuses
//
// Thread-safety: everything here may be called from any thread. resolve() calls back with its lock held; what it calls
// must not call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/token.h"
#include "concurrency/mutex.h"
#include "index/index_types.h"

namespace rhizome {

class AroundChains {
 public:
  struct Chain {
    Root root = {};
    std::vector<Token> tokens = {};  // from position 0 to the end of the last block
    uint32_t first_block = 0;
    BlockKey parent = {};             // of the first block
    std::vector<BlockKey> keys = {};  // one for each block
    uint64_t deadline_ns = 0;         // nobody counts on it after that
  };

  // Names a block that is under way.
  struct Ticket {
    uint64_t chain = 0;
    uint32_t block = 0;  // of the chain
  };

  // Its number; block i is Ticket{number, i}.
  uint64_t add(Chain chain);
  // Once for each block. Nothing: the tier has not taken it.
  void end(Ticket ticket, std::optional<Location> location);

  // Whether somebody has committed the block of that key and it may still be published.
  bool is_under_way(const BlockKey& key, uint64_t now_ns) const;
  // Blocks that were added and neither published nor lost.
  size_t blocks() const;

  // Makes `blocks` of the chain from its block `first` on visible; their numbers are its own from then on. False: none.
  using Publish = std::function<bool(const Chain& chain, uint32_t first, std::span<const Location> blocks)>;
  // Takes back the number of a block that is lost.
  using Lose = std::function<void(Location)>;
  // Publishes what can be, in the order in which it was added. Returns how many blocks were published or lost.
  size_t resolve(const Publish& publish, const Lose& lose);

 private:
  enum class Fate : uint8_t { kUnderWay, kInTier, kLost, kResolved };
  struct Entry {
    uint64_t number = 0;
    Chain chain;
    std::vector<Fate> fates;
    std::vector<Location> locations;  // valid where kInTier
    uint32_t next = 0;                // the first that is not published
    bool is_lost = false;             // none from `next` on will be
  };

  bool holds(const BlockKey& key) const REQUIRES(mutex_);
  size_t resolve(Entry& entry, const Publish& publish, const Lose& lose) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // in the order in which they were added: parents first
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  size_t blocks_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rhizome
