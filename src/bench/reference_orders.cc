#include "bench/reference_orders.h"

#include <queue>
#include <utility>
#include <vector>

#include "bench/block_list.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

// For each block of each request, the number of the next request that uses it.
std::vector<std::vector<uint32_t>> next_uses(const Trace& trace) {
  std::vector<std::vector<uint32_t>> next(trace.requests.size());
  std::vector<uint32_t> upcoming(trace.distinct(), kNever);
  for (size_t i = trace.requests.size(); i-- > 0;) {
    for (const uint32_t block : trace.requests[i].blocks) {
      next[i].push_back(upcoming[block]);
      upcoming[block] = static_cast<uint32_t>(i);
    }
  }
  return next;
}

}  // namespace

Hits replay_plain_lru(const Trace& trace, uint32_t capacity) {
  BlockList queue(trace.distinct());
  Hits hits;
  for (const Request& request : trace.requests) {
    size_t hit = 0;
    while (hit < request.blocks.size() && queue.holds(request.blocks[hit]))
      ++hit;
    hits.add(request, hit);
    for (const uint32_t block : request.blocks) {
      if (queue.holds(block)) queue.remove(block);
      queue.push_back(block);
      if (queue.size() > capacity) queue.pop_front();
    }
  }
  return hits;
}

Hits replay_clairvoyant(const Trace& trace, uint32_t capacity) {
  const std::vector<std::vector<uint32_t>> next = next_uses(trace);
  std::vector<uint32_t> resident_until(trace.distinct(), kNever);  // the next use of a resident block; else kNever
  uint32_t size = 0;
  // Of blocks with the same next use, which are of one path, the deepest leaves first: it has the largest number.
  // Holds outdated entries, too.
  std::priority_queue<std::pair<uint32_t, uint32_t>> farthest;
  Hits hits;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& request = trace.requests[i];
    size_t hit = 0;
    while (hit < request.blocks.size() && resident_until[request.blocks[hit]] != kNever)
      ++hit;
    hits.add(request, hit);
    for (size_t j = 0; j < request.blocks.size(); ++j) {
      const uint32_t block = request.blocks[j];
      size -= resident_until[block] != kNever;
      resident_until[block] = next[i][j];
      if (next[i][j] == kNever) continue;
      ++size;
      farthest.emplace(next[i][j], block);
    }
    while (size > capacity) {
      const auto [use, block] = farthest.top();
      farthest.pop();
      if (resident_until[block] != use) continue;
      resident_until[block] = kNever;
      --size;
    }
  }
  return hits;
}

}  // namespace rhizome::bench
