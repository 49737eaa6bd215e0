#include "store/stored_prefix.h"

#include <utility>

#include "store/store.h"

namespace rhizome {

StoredPrefix::StoredPrefix(StoredPrefix&& other) noexcept {
  *this = std::move(other);
}

StoredPrefix& StoredPrefix::operator=(StoredPrefix&& other) noexcept {
  if (this == &other) return *this;
  release();
  store_ = std::exchange(other.store_, nullptr);
  root_ = other.root_;
  handle_ = std::move(other.handle_);
  locations_ = std::exchange(other.locations_, {});
  held_ = std::exchange(other.held_, {});
  key_ = other.key_;
  key_block_ = std::exchange(other.key_block_, 0);
  loaded_ = std::exchange(other.loaded_, 0);
  load_began_ns_ = other.load_began_ns_;
  load_deadline_ns_ = other.load_deadline_ns_;
  reason_ = other.reason_;
  return *this;
}

void StoredPrefix::release() {
  if (Store* const store = std::exchange(store_, nullptr)) store->release(*this);
}

}  // namespace rhizome
