#include "store/block_draft.h"

#include <utility>

#include "store/store.h"

namespace rhizome {

BlockDraft::BlockDraft(BlockDraft&& other) noexcept {
  *this = std::move(other);
}

BlockDraft& BlockDraft::operator=(BlockDraft&& other) noexcept {
  if (this != &other) {
    abort();
    store_ = std::exchange(other.store_, nullptr);
    root_ = other.root_;
    prefix_ = std::move(other.prefix_);
    parent_ = other.parent_;
    before_ = other.before_;
    first_block_ = other.first_block_;
    identity_bytes_ = other.identity_bytes_;
    tokens_ = std::exchange(other.tokens_, {});
    slot_bytes_ = other.slot_bytes_;
    slots_ = std::exchange(other.slots_, {});
    buffers_ = std::exchange(other.buffers_, {});
    filled_ = std::exchange(other.filled_, {});
  }
  return *this;
}

void BlockDraft::fill_next(std::span<const std::byte> from) {
  store_->fill_next(*this, from);
}

void BlockDraft::abort() {
  if (Store* store = std::exchange(store_, nullptr)) store->abort(*this);
}

}  // namespace rhizome
