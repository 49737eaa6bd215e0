#include "bench/replay_orders.h"

#include <array>
#include <memory>

#include "bench/eviction_orders.h"
#include "bench/index_order.h"
#include "bench/reference_orders.h"

namespace rhizome::bench {
namespace {

template <std::unique_ptr<EvictionOrder> (*kMake)(uint32_t, uint32_t)>
Result<Hits> replay_made(const Trace& trace, uint32_t capacity) {
  const std::unique_ptr<EvictionOrder> order = kMake(trace.distinct(), capacity);
  return replay_leaves(trace, capacity, *order);
}

Result<Hits> replay_lru(const Trace& trace, uint32_t capacity) {
  return replay_plain_lru(trace, capacity);
}

Result<Hits> replay_min(const Trace& trace, uint32_t capacity) {
  return replay_clairvoyant(trace, capacity);
}

constexpr std::array kOrders = {
    ReplayOrder{"lru", "plain LRU: blocks are used in order, any may leave", replay_lru},
    ReplayOrder{"lru_leaf", "LRU of a tree: used tail first, only leaves leave", replay_made<make_lru>},
    ReplayOrder{"fifo", "first in, first out, of the leaves", replay_made<make_fifo>},
    ReplayOrder{"s3fifo", "S3-FIFO of the leaves", replay_made<make_s3fifo>},
    ReplayOrder{"sieve", "SIEVE of the leaves", replay_made<make_sieve>},
    ReplayOrder{"arc", "ARC of the leaves", replay_made<make_arc>},
    ReplayOrder{"index", "the index of this program, as it is", replay_index},
    ReplayOrder{"min", "who knows the future: nobody does better", replay_min},
};

}  // namespace

std::span<const ReplayOrder> replay_orders() {
  return kOrders;
}

const ReplayOrder* find_replay_order(std::string_view name) {
  for (const ReplayOrder& order : kOrders) {
    if (order.name == name) return &order;
  }
  return nullptr;
}

}  // namespace rhizome::bench
