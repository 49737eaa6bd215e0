#include "attach/message_ring.h"

#include <bit>
#include <cstring>
#include <new>

#include "contract/check.h"
#include "machine/clock.h"
#include "machine/shared_futex.h"

namespace rhizome {
namespace {

RingWords* words_of(std::span<std::byte> memory, uint32_t capacity) {
  RHIZOME_CHECK(std::has_single_bit(capacity) && capacity <= kRingRecordsMax);
  RHIZOME_CHECK(memory.size() == ring_bytes(capacity));
  RHIZOME_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(RingWords) == 0);
  return std::launder(reinterpret_cast<RingWords*>(memory.data()));
}

RingPlace* places_of(std::span<std::byte> memory) {
  return std::launder(reinterpret_cast<RingPlace*>(memory.data() + sizeof(RingWords)));
}

// A store and a full fence: what follows does not pass it.
void publish(std::atomic<uint32_t>& word, uint32_t value) {
  word.exchange(value, std::memory_order_seq_cst);
#if !defined(__x86_64__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void wake_if_waiting(const std::atomic<uint32_t>& waits, const std::atomic<uint32_t>& word) {
  if (waits.load(std::memory_order_relaxed) != 0) shared_futex_wake(word);
}

// Tries until it is not busy, `is_over()`, or the deadline has passed: then it has tried once more.
template <class Try, class Over>
RingOutcome try_until(uint64_t deadline_ns, Over is_over, std::atomic<uint32_t>& waits,
                      const std::atomic<uint32_t>& word, const uint32_t& seen, Try attempt) {
  RingOutcome outcome = attempt();
  while (outcome == RingOutcome::kBusy && monotonic_now_ns() < deadline_ns && !is_over()) {
    publish(waits, 1);
    outcome = attempt();
    if (outcome == RingOutcome::kBusy) {
      shared_futex_wait(word, seen, deadline_ns);
      outcome = attempt();
    }
    waits.store(0, std::memory_order_relaxed);
  }
  return outcome;
}

}  // namespace

RingProducer::RingProducer(std::span<std::byte> memory, uint32_t capacity)
    : words_(words_of(memory, capacity)), places_(places_of(memory)), capacity_(capacity) {}

RingOutcome RingProducer::push(const RingRecord& record) {
  if (is_broken_) return RingOutcome::kBroken;
  const uint32_t head = words_->head.load(std::memory_order_acquire);  // pairs with pop()
  // It has moved by at most what was pushed since: neither back nor beyond.
  if (head - head_seen_ > tail_ - head_seen_) {
    is_broken_ = true;
    return RingOutcome::kBroken;
  }
  head_seen_ = head;
  if (tail_ - head == capacity_) return RingOutcome::kBusy;
  RingPlace& place = places_[tail_ % capacity_];
  for (size_t i = 0; i < place.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, record.bytes.data() + i * sizeof word, sizeof word);
    place[i].store(word, std::memory_order_relaxed);
  }
  publish(words_->tail, ++tail_);  // pairs with pop(), and with the flag in try_until()
  wake_if_waiting(words_->consumer_waits, words_->tail);
  return RingOutcome::kDone;
}

RingOutcome RingProducer::push_until(const RingRecord& record, uint64_t deadline_ns) {
  const auto never = [] { return false; };
  return try_until(deadline_ns, never, words_->producer_waits, words_->head, head_seen_, [&] { return push(record); });
}

RingConsumer::RingConsumer(std::span<std::byte> memory, uint32_t capacity)
    : words_(words_of(memory, capacity)), places_(places_of(memory)), capacity_(capacity) {}

RingOutcome RingConsumer::pop(RingRecord& record) {
  if (is_broken_) return RingOutcome::kBroken;
  const uint32_t tail = words_->tail.load(std::memory_order_acquire);  // pairs with push()
  // It has moved by at most the room that there was: neither back nor beyond.
  if (tail - tail_seen_ > head_ + capacity_ - tail_seen_) {
    is_broken_ = true;
    return RingOutcome::kBroken;
  }
  tail_seen_ = tail;
  if (tail == head_) return RingOutcome::kBusy;
  const RingPlace& place = places_[head_ % capacity_];
  for (size_t i = 0; i < place.size(); ++i) {
    const uint64_t word = place[i].load(std::memory_order_relaxed);
    std::memcpy(record.bytes.data() + i * sizeof word, &word, sizeof word);
  }
  publish(words_->head, ++head_);  // pairs with push(), and with the flag in try_until()
  wake_if_waiting(words_->producer_waits, words_->head);
  return RingOutcome::kDone;
}

RingOutcome RingConsumer::pop_until(RingRecord& record, uint64_t deadline_ns) {
  const auto is_over = [&] { return is_interrupted_.load(std::memory_order_relaxed); };
  return try_until(deadline_ns, is_over, words_->consumer_waits, words_->tail, tail_seen_, [&] { return pop(record); });
}

void RingConsumer::interrupt() {
  is_interrupted_.store(true, std::memory_order_relaxed);
  shared_futex_wake(words_->tail);
}

}  // namespace rhizome
