// Readers of an index for tests: slots and touches in some memory, which processes may share.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "index/index_reader.h"
#include "index/remote_readers.h"

namespace rhizome {

struct ReaderWords {
  std::array<HazardSlot, 8> slots;
  std::array<std::atomic<uint64_t>, 64> touches;  // run | tick << 32
};

class TestReaders final : public RemoteReaders {
 public:
  explicit TestReaders(ReaderWords& words) : words_(words) {}

  void collect(std::vector<RunId>& in_use) override {
    ++collected;
    for (const HazardSlot& slot : words_.slots) {
      if (const RunId id = slot.load(std::memory_order_acquire); id != 0) in_use.push_back(id);
    }
  }
  void take_touches(const std::function<void(RunId, uint32_t)>& touched) override {
    for (std::atomic<uint64_t>& touch : words_.touches) {
      if (const uint64_t taken = touch.exchange(0, std::memory_order_relaxed); taken != 0) {
        touched(static_cast<RunId>(taken), static_cast<uint32_t>(taken >> 32));
      }
    }
  }

  uint64_t collected = 0;

 private:
  ReaderWords& words_;
};

}  // namespace rhizome
