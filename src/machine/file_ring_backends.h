// The backends of FileRing, each made or refused for itself.
#pragma once

#include <cstdint>
#include <memory>

#include "contract/result.h"
#include "machine/file_ring.h"

namespace rhizome::internal {

// An eventfd: wake() from anywhere ends the one wait() that comes or is there.
class Wakeup {
 public:
  static Result<std::unique_ptr<Wakeup>> create();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void wake() const;
  // Until wake(), or `other` (a descriptor, or -1) can be read, or the time is over.
  void wait(int other, uint64_t wait_ns) const;
  void clear() const;
  int descriptor() const { return descriptor_; }

 private:
  explicit Wakeup(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
};

Result<std::unique_ptr<FileRing>> make_uring(const RingOptions& options, bool is_registered);
Result<std::unique_ptr<FileRing>> make_pool_ring(const RingOptions& options);
Result<std::unique_ptr<FileRing>> make_synchronous_ring(const RingOptions& options);

}  // namespace rhizome::internal
