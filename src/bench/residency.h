// Which blocks of a trace a cache of so many blocks holds, and how many of those asked for that makes hits.
//
// The cache is a tree of prefixes: a request hits its longest resident prefix, then its missing blocks come in; only a
// block that no resident block continues may leave, and none of the running request. Paths are used and come in tail
// first, so that a parent is never older than its child.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/trace.h"

namespace rhizome::bench {

struct Hits {
  uint64_t blocks = 0;
  uint64_t tokens = 0;  // of the input; the last block of a request may be a part of one

  // The first `count` blocks of the request.
  void add(const Request& request, uint64_t count);
  friend bool operator==(const Hits&, const Hits&) = default;
};

class Residency {
 public:
  explicit Residency(const Trace& trace);

  bool may_leave(uint32_t block) const { return pinned_[block] == 0 && children_[block] == 0; }

 private:
  friend class PrefixCache;

  std::vector<uint8_t> resident_;
  std::vector<uint8_t> pinned_;
  std::vector<uint32_t> children_;  // resident ones
};

// In which order resident blocks leave.
class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;
  virtual void admitted(uint32_t block) = 0;
  virtual void used(uint32_t block) = 0;
  // Takes out the next block that may leave; Trace::kNoBlock when none may.
  virtual uint32_t take(const Residency& residency) = 0;
};

// Plays the whole trace.
Hits replay_leaves(const Trace& trace, uint32_t capacity, EvictionOrder& order);

}  // namespace rhizome::bench
