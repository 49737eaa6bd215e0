// A ring of records from one process to another one, in shared memory, with a peer that may be hostile.
//
// Two words of the memory count records: `tail` those that were pushed, `head` those that were popped, both modulo
// 2^32. States: head == tail empty, tail - head == capacity full, anything more is broken. Only the producer writes
// tail and the records from tail on, only the consumer head. Each side keeps its own word in its own memory, reads only
// the other's, and believes it only when it has moved forward within what the ring can hold; else the ring is broken
// for good and the peer is to be dropped.
//   push   record -> place tail, then tail + 1 (release; pairs with the acquire in pop()).
//   pop    place head -> a copy, then head + 1 (release; pairs with the acquire in push()). What the copy says is
//   checked
//          by whoever gets it; the place may change while it is copied, which gives another record and no harm.
// Waiting: a side that must wait sets its flag, fences, looks once more, and sleeps on the other's word (futex). The
// other one changes the word, fences, and wakes when it sees the flag: of the two at least one sees the other's store.
// A peer that does not wake, or wakes all the time, costs the waiter its time until its deadline and nothing else.
//
// Thread-safety: a RingProducer belongs to one thread at a time, a RingConsumer to one, each in any process;
// interrupt() may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

inline constexpr size_t kRingRecordBytes = 64;
inline constexpr uint32_t kRingRecordsMax = 1 << 14;

struct alignas(8) RingRecord {
  std::array<std::byte, kRingRecordBytes> bytes{};

  friend bool operator==(const RingRecord&, const RingRecord&) = default;
};

// kBusy: full, or empty. kBroken: the peer wrote what cannot be; for good.
enum class RingOutcome : uint8_t { kDone, kBusy, kBroken };

struct RingWords {
  alignas(64) std::atomic<uint32_t> tail{0};
  std::atomic<uint32_t> producer_waits{0};
  alignas(64) std::atomic<uint32_t> head{0};
  std::atomic<uint32_t> consumer_waits{0};
};
static_assert(sizeof(RingWords) == 128 && offsetof(RingWords, producer_waits) == 4 && offsetof(RingWords, head) == 64 &&
              offsetof(RingWords, consumer_waits) == 68);

using RingPlace = std::array<std::atomic<uint64_t>, kRingRecordBytes / 8>;
static_assert(sizeof(RingPlace) == kRingRecordBytes);

// What a ring of `capacity` records, a power of two up to kRingRecordsMax, takes. Zeros are an empty ring, so there is
// nothing to make.
constexpr uint64_t ring_bytes(uint32_t capacity) {
  return sizeof(RingWords) + uint64_t{capacity} * kRingRecordBytes;
}

class RingProducer {
 public:
  // `memory`: ring_bytes(capacity) at a multiple of 64, which outlive the producer; both sides begin with zeros.
  RingProducer(std::span<std::byte> memory, uint32_t capacity);

  RingOutcome push(const RingRecord& record);
  // As push(), but waits for room until `deadline_ns` on monotonic_now_ns().
  RingOutcome push_until(const RingRecord& record, uint64_t deadline_ns);

 private:
  RingWords* words_;
  RingPlace* places_;
  uint32_t capacity_;
  uint32_t tail_ = 0;
  uint32_t head_seen_ = 0;
  bool is_broken_ = false;
};

class RingConsumer {
 public:
  // As RingProducer.
  RingConsumer(std::span<std::byte> memory, uint32_t capacity);

  RingOutcome pop(RingRecord& record);
  // As pop(), but waits for a record until `deadline_ns` on monotonic_now_ns(), or interrupt().
  RingOutcome pop_until(RingRecord& record, uint64_t deadline_ns);
  // Ends a pop_until(), and makes all later ones not wait. One that is just about to sleep may miss it: whoever must
  // know that it has ended calls again until it has. The memory is not written, so the peer does not notice.
  void interrupt();

 private:
  RingWords* words_;
  const RingPlace* places_;
  std::atomic<bool> is_interrupted_{false};
  uint32_t capacity_;
  uint32_t head_ = 0;
  uint32_t tail_seen_ = 0;
  bool is_broken_ = false;
};

}  // namespace rhizome
