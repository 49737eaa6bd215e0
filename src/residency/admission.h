// Which resident blocks are worth a write to a tier, and when.
//
// A block is written when it was used again since it was stored, or after it has been there for a while and the budget
// is not short. What is written is bounded by a token bucket over the bytes of the device; who gets the bytes when
// there are too few is decided by value: seconds that the block is expected to save, for each byte. The threshold moves
// every few seconds so that what is admitted meets the budget (the idea of CacheLib's dynamic admission, with value in
// place of chance).
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>

namespace rhizome {

struct AdmissionOptions {
  uint64_t bytes_per_second = 0;         // 0: unlimited
  uint64_t bucket_seconds = 300;         // how much may be written at once after a quiet time
  uint64_t unused_wait_ns = 1000000000;  // until a block is written that nobody has used again
  uint64_t threshold_step_ns = 10000000000;
};

// What is known of a block that no tier below has.
struct WriteCandidate {
  uint64_t age_ns = 0;         // since it was stored
  uint32_t uses = 0;           // since then
  uint32_t asked_for = 0;      // lately, also before it was stored (frequency_sketch.h)
  bool has_children = false;   // blocks below it need it
  uint64_t bytes = 0;          // as it would be written
  double compute_seconds = 0;  // to compute it again
  double load_seconds = 0;     // to load it
};

enum class WriteDecision : uint8_t {
  kNow,
  kLater,  // ask again
  kNever,  // not worth it: it saves nothing, or too little for this budget
};

class Admission {
 public:
  explicit Admission(const AdmissionOptions& options);

  WriteDecision decide(const WriteCandidate& candidate, uint64_t now_ns);
  // What the device wrote for it, padding and what was moved for it included.
  void wrote(uint64_t bytes, uint64_t now_ns);

  // Seconds saved for each byte, below which nothing is written.
  double threshold() const { return threshold_; }

  static double density(const WriteCandidate& candidate);

 private:
  void refill(uint64_t now_ns);
  void move_threshold(uint64_t now_ns);

  const AdmissionOptions options_;
  const double bucket_bytes_;
  double available_;
  uint64_t refilled_ns_ = 0;
  double threshold_ = 0;
  double wanted_density_ = 0;  // of what was decided about since the threshold moved, the mean
  uint64_t wanted_count_ = 0;
  uint64_t wanted_bytes_ = 0;
  uint64_t step_began_ns_ = 0;
  bool began_ = false;
};

}  // namespace rhizome
