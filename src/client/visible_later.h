// What commits that nobody waits for have made visible, until settle() asks.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/client.h"

namespace rhizome {

class VisibleLater {
 public:
  void add(uint64_t blocks, uint64_t payload_bytes) {
    blocks_.fetch_add(blocks, std::memory_order_relaxed);
    bytes_.fetch_add(blocks * payload_bytes, std::memory_order_relaxed);
  }
  Settled take() {
    return {.blocks_count = blocks_.exchange(0, std::memory_order_relaxed),
            .payload_bytes = bytes_.exchange(0, std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> blocks_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace rhizome
