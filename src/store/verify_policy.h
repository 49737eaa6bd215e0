// When the checksum of a block that is in memory is compared with its bytes before they are handed out.
//
// Whatever is chosen: a block's identity is compared with the prompt at each read, and the checksum of what comes up
// from a tier, or was left by a former node, before it counts as being in memory. Less than kAlways does not find bits
// that change in memory itself.
//
// Thread-safety: plain values; a ReadSampler may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace rhizome {

enum class VerifyPolicy : uint8_t {
  kTier,    // never again
  kSample,  // in one look-up of kLookupsPerSample
  kAlways,  // at each read
};

// What one read compares.
enum class BlockCheck : uint8_t { kIdentity, kIdentityAndChecksum };

class ReadSampler {
 public:
  static constexpr uint32_t kLookupsPerSample = 64;

  explicit ReadSampler(VerifyPolicy policy) : policy_(policy) {}

  // For all reads of the next look-up.
  BlockCheck next() {
    if (policy_ != VerifyPolicy::kSample) {
      return policy_ == VerifyPolicy::kAlways ? BlockCheck::kIdentityAndChecksum : BlockCheck::kIdentity;
    }
    const bool is_sample = lookups_.fetch_add(1, std::memory_order_relaxed) % kLookupsPerSample == 0;
    return is_sample ? BlockCheck::kIdentityAndChecksum : BlockCheck::kIdentity;
  }

 private:
  const VerifyPolicy policy_;
  std::atomic<uint32_t> lookups_{0};
};

}  // namespace rhizome
