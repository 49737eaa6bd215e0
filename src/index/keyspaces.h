// The open keyspaces of an index: their encodings, and where each one's tree begins.
//
// Thread-safety: find() from any thread; the rest REQUIRES the index's mutex, which the caller holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "index/index_types.h"
#include "index/run.h"

namespace rhizome {

class Keyspaces {
 public:
  explicit Keyspaces(uint32_t max) : max_(max), slots_(std::make_unique<std::atomic<uint64_t>[]>(size_t{max} + 1)) {}

  // 0: not open. One load: generation and root run change together.
  RunId find(Root root) const {
    if (root.value == 0 || root.value > max_) return 0;
    const uint64_t slot = slots_[root.value].load(std::memory_order_acquire);  // pairs with set()
    return static_cast<uint32_t>(slot >> 32) == root.generation ? static_cast<RunId>(slot) : 0;
  }
  // Value zero: none of that encoding.
  Root find(std::span<const std::byte> encoding) const;
  bool full() const { return open_ == max_; }
  uint32_t count() const { return open_; }

  Root add(std::span<const std::byte> encoding, RunId run);
  void set(Root root, RunId run);
  void take_out(Root root);
  std::vector<Root> all() const;

 private:
  const uint32_t max_;
  const std::unique_ptr<std::atomic<uint64_t>[]> slots_;  // by Root::value: generation, root run
  std::map<std::string, Root, std::less<>> by_encoding_;
  std::vector<Root> returned_;  // closed: value, and the generation to come
  uint32_t open_ = 0;
  uint32_t used_ = 0;
};

}  // namespace rhizome
