#include "bench/residency.h"

#include <algorithm>

namespace rhizome::bench {

void Hits::add(const Request& request, uint64_t count) {
  blocks += count;
  tokens += std::min(count * kTraceBlockTokens, request.input_tokens);
}

Residency::Residency(const Trace& trace)
    : resident_(trace.distinct()), pinned_(trace.distinct()), children_(trace.distinct()) {}

class PrefixCache {
 public:
  PrefixCache(const Trace& trace, uint32_t capacity, EvictionOrder& order)
      : trace_(trace), capacity_(capacity), order_(order), residency_(trace) {}

  Hits run() {
    Hits hits;
    for (const Request& request : trace_.requests) {
      const size_t hit = resident_prefix(request);
      hits.add(request, hit);
      pin(request, 1);
      const size_t admitted = make_room(request.blocks.size() - hit);
      use_and_admit(request, hit, hit + admitted);
      pin(request, 0);
    }
    return hits;
  }

 private:
  size_t resident_prefix(const Request& request) const {
    size_t hit = 0;
    while (hit < request.blocks.size() && residency_.resident_[request.blocks[hit]] != 0)
      ++hit;
    return hit;
  }

  void pin(const Request& request, uint8_t pinned) {
    for (const uint32_t block : request.blocks)
      residency_.pinned_[block] = pinned;
  }

  // For how many of `wanted` blocks there is room now.
  size_t make_room(size_t wanted) {
    while (capacity_ - size_ < wanted) {
      const uint32_t block = order_.take(residency_);
      if (block == Trace::kNoBlock) return capacity_ - size_;
      residency_.resident_[block] = 0;
      --size_;
      const uint32_t parent = trace_.parent[block];
      if (parent != Trace::kNoBlock) --residency_.children_[parent];
    }
    return wanted;
  }

  void use_and_admit(const Request& request, size_t hit, size_t end) {
    for (size_t i = end; i-- > hit;) {
      const uint32_t block = request.blocks[i];
      residency_.resident_[block] = 1;
      ++size_;
      const uint32_t parent = trace_.parent[block];
      if (parent != Trace::kNoBlock) ++residency_.children_[parent];
      order_.admitted(block);
    }
    for (size_t i = hit; i-- > 0;)
      order_.used(request.blocks[i]);
  }

  const Trace& trace_;
  const size_t capacity_;
  EvictionOrder& order_;
  Residency residency_;
  size_t size_ = 0;
};

Hits replay_leaves(const Trace& trace, uint32_t capacity, EvictionOrder& order) {
  return PrefixCache(trace, capacity, order).run();
}

}  // namespace rhizome::bench
