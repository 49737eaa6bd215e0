#include "bench/eviction_orders.h"

#include <algorithm>
#include <vector>

#include "bench/block_list.h"

namespace rhizome::bench {
namespace {

// The first block of a queue that may leave, out of it.
uint32_t take_first(BlockList& queue, const Residency& residency) {
  for (uint32_t block = queue.front(); block != queue.end(); block = queue.after(block)) {
    if (!residency.may_leave(block)) continue;
    queue.remove(block);
    return block;
  }
  return Trace::kNoBlock;
}

class Fifo : public EvictionOrder {
 public:
  explicit Fifo(uint32_t blocks) : queue_(blocks) {}
  void admitted(uint32_t block) override { queue_.push_back(block); }
  void used(uint32_t) override {}
  uint32_t take(const Residency& residency) override { return take_first(queue_, residency); }

 protected:
  BlockList queue_;  // the next to leave in front
};

class Lru final : public Fifo {
 public:
  using Fifo::Fifo;
  void used(uint32_t block) override { queue_.move_to_back(block); }
};

class S3Fifo final : public EvictionOrder {
 public:
  S3Fifo(uint32_t blocks, uint32_t capacity)
      : small_(blocks),
        main_(blocks),
        ghosts_(blocks),
        uses_(blocks),
        small_max_(std::max(1U, capacity / 10)),
        ghosts_max_(capacity - std::min(capacity, small_max_)) {}

  void admitted(uint32_t block) override {
    uses_[block] = 0;
    const bool was_here = ghosts_.holds(block);
    if (was_here) ghosts_.remove(block);
    (was_here ? main_ : small_).push_back(block);
  }

  void used(uint32_t block) override { uses_[block] = std::min<uint8_t>(kUsesMax, uses_[block] + 1); }

  uint32_t take(const Residency& residency) override {
    if (small_.size() > small_max_ || main_.empty()) {
      const uint32_t block = take_small(residency);
      if (block != Trace::kNoBlock) return block;
    }
    const uint32_t block = take_main(residency);
    return block != Trace::kNoBlock ? block : take_small(residency);
  }

 private:
  static constexpr uint8_t kUsesMax = 3;
  static constexpr uint8_t kUsesToPromote = 2;

  uint32_t take_small(const Residency& residency) {
    for (uint32_t left = small_.size(); left > 0; --left) {
      const uint32_t block = small_.pop_front();
      if (uses_[block] >= kUsesToPromote) {
        uses_[block] = 0;
        main_.push_back(block);
      } else if (residency.may_leave(block)) {
        ghosts_.push_back(block);
        if (ghosts_.size() > ghosts_max_) ghosts_.pop_front();
        return block;
      } else {
        small_.push_back(block);
      }
    }
    return Trace::kNoBlock;
  }

  uint32_t take_main(const Residency& residency) {
    // Each round takes one use off every block, and one round more finds who may leave.
    for (uint64_t left = uint64_t{kUsesMax + 1} * main_.size(); left > 0; --left) {
      const uint32_t block = main_.pop_front();
      if (uses_[block] == 0 && residency.may_leave(block)) return block;
      if (uses_[block] > 0) --uses_[block];
      main_.push_back(block);
    }
    return Trace::kNoBlock;
  }

  BlockList small_;
  BlockList main_;
  BlockList ghosts_;
  std::vector<uint8_t> uses_;
  const uint32_t small_max_;
  const uint32_t ghosts_max_;
};

class Sieve final : public EvictionOrder {
 public:
  explicit Sieve(uint32_t blocks) : queue_(blocks), hand_(queue_.end()), visited_(blocks) {}

  void admitted(uint32_t block) override {
    visited_[block] = 0;
    queue_.push_back(block);
  }

  void used(uint32_t block) override { visited_[block] = 1; }

  uint32_t take(const Residency& residency) override {
    // Two rounds: the first may find only blocks that were visited.
    for (uint64_t left = uint64_t{2} * queue_.size() + 2; left > 0; --left) {
      if (hand_ == queue_.end()) hand_ = queue_.front();
      if (hand_ == queue_.end()) break;  // an empty queue
      const uint32_t block = hand_;
      hand_ = queue_.after(block);
      if (visited_[block] != 0) {
        visited_[block] = 0;
      } else if (residency.may_leave(block)) {
        queue_.remove(block);
        return block;
      }
    }
    return Trace::kNoBlock;
  }

 private:
  BlockList queue_;  // the oldest in front
  uint32_t hand_;
  std::vector<uint8_t> visited_;
};

class Arc final : public EvictionOrder {
 public:
  Arc(uint32_t blocks, uint32_t capacity)
      : capacity_(capacity), once_(blocks), often_(blocks), once_ghosts_(blocks), often_ghosts_(blocks) {}

  void used(uint32_t block) override {
    if (once_.holds(block)) {
      once_.remove(block);
    } else {
      often_.remove(block);
    }
    often_.push_back(block);
  }

  void admitted(uint32_t block) override {
    const double once_ghosts = once_ghosts_.size();
    const double often_ghosts = often_ghosts_.size();
    if (once_ghosts_.holds(block)) {
      once_wanted_ = std::min<double>(capacity_, once_wanted_ + std::max(1.0, often_ghosts / once_ghosts));
      once_ghosts_.remove(block);
      often_.push_back(block);
    } else if (often_ghosts_.holds(block)) {
      once_wanted_ = std::max(0.0, once_wanted_ - std::max(1.0, once_ghosts / often_ghosts));
      often_ghosts_.remove(block);
      often_.push_back(block);
    } else {
      once_.push_back(block);
    }
    forget_ghosts();
  }

  uint32_t take(const Residency& residency) override {
    const bool once_first = !once_.empty() && once_.size() > once_wanted_;
    const uint32_t block =
        once_first ? take_to_ghosts(once_, once_ghosts_, residency) : take_to_ghosts(often_, often_ghosts_, residency);
    if (block != Trace::kNoBlock) return block;
    return once_first ? take_to_ghosts(often_, often_ghosts_, residency)
                      : take_to_ghosts(once_, once_ghosts_, residency);
  }

 private:
  static uint32_t take_to_ghosts(BlockList& queue, BlockList& ghosts, const Residency& residency) {
    const uint32_t block = take_first(queue, residency);
    if (block != Trace::kNoBlock) ghosts.push_back(block);
    return block;
  }

  void forget_ghosts() {
    while (!once_ghosts_.empty() && once_ghosts_.size() + once_.size() > capacity_)
      once_ghosts_.pop_front();
    while (once_ghosts_.size() + often_ghosts_.size() > capacity_)
      (often_ghosts_.empty() ? once_ghosts_ : often_ghosts_).pop_front();
  }

  const uint32_t capacity_;
  double once_wanted_ = 0;  // how long `once_` should be; the ghosts that come back say so
  BlockList once_;          // used once since they came; the least recent in front
  BlockList often_;
  BlockList once_ghosts_;  // of what left those two
  BlockList often_ghosts_;
};

}  // namespace

std::unique_ptr<EvictionOrder> make_fifo(uint32_t blocks, uint32_t) {
  return std::make_unique<Fifo>(blocks);
}

std::unique_ptr<EvictionOrder> make_lru(uint32_t blocks, uint32_t) {
  return std::make_unique<Lru>(blocks);
}

std::unique_ptr<EvictionOrder> make_s3fifo(uint32_t blocks, uint32_t capacity) {
  return std::make_unique<S3Fifo>(blocks, capacity);
}

std::unique_ptr<EvictionOrder> make_sieve(uint32_t blocks, uint32_t) {
  return std::make_unique<Sieve>(blocks);
}

std::unique_ptr<EvictionOrder> make_arc(uint32_t blocks, uint32_t capacity) {
  return std::make_unique<Arc>(blocks, capacity);
}

}  // namespace rhizome::bench
