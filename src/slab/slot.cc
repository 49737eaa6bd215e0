#include "slab/slot.h"

#include <utility>

#include "slab/slab.h"

namespace rhizome {

Reserved::Reserved(Reserved&& other) noexcept
    : slab_(std::exchange(other.slab_, nullptr)), ref_(other.ref_), bytes_(std::exchange(other.bytes_, {})) {}

Reserved& Reserved::operator=(Reserved&& other) noexcept {
  if (this != &other) {
    abort();
    slab_ = std::exchange(other.slab_, nullptr);
    ref_ = other.ref_;
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void Reserved::abort() {
  bytes_ = {};
  if (Slab* slab = std::exchange(slab_, nullptr)) slab->abort(ref_);
}

Pinned::Pinned(Pinned&& other) noexcept
    : slab_(std::exchange(other.slab_, nullptr)),
      ref_(other.ref_),
      bytes_(std::exchange(other.bytes_, {})),
      checksum_(other.checksum_) {}

Pinned& Pinned::operator=(Pinned&& other) noexcept {
  if (this != &other) {
    release();
    slab_ = std::exchange(other.slab_, nullptr);
    ref_ = other.ref_;
    bytes_ = std::exchange(other.bytes_, {});
    checksum_ = other.checksum_;
  }
  return *this;
}

void Pinned::release() {
  const std::span<const std::byte> bytes = std::exchange(bytes_, {});
  if (Slab* slab = std::exchange(slab_, nullptr)) slab->unpin(ref_, bytes.size());
}

}  // namespace rhizome
