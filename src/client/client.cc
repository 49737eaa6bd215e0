#include "client/client.h"

#include <utility>

namespace rhizome {

Hit::Hit(Hit&& other) noexcept {
  *this = std::move(other);
}

Hit& Hit::operator=(Hit&& other) noexcept {
  if (this != &other) {
    release();
    client_ = std::exchange(other.client_, nullptr);
    keyspace_ = other.keyspace_;
    pin_ = std::exchange(other.pin_, 0);
    slots_ = std::exchange(other.slots_, {});
    key_ = other.key_;
    key_block_ = std::exchange(other.key_block_, 0);
    reason_ = other.reason_;
  }
  return *this;
}

void Hit::release() {
  slots_.clear();
  key_block_ = 0;
  const uint64_t pin = std::exchange(pin_, 0);
  if (Client* client = std::exchange(client_, nullptr)) client->release_pin(keyspace_, pin);
}

Draft::Draft(Draft&& other) noexcept {
  *this = std::move(other);
}

Draft& Draft::operator=(Draft&& other) noexcept {
  if (this != &other) {
    abort();
    client_ = std::exchange(other.client_, nullptr);
    id_ = std::exchange(other.id_, 0);
    first_block_ = other.first_block_;
    payloads_ = std::exchange(other.payloads_, {});
  }
  return *this;
}

void Draft::abort() {
  payloads_.clear();
  const uint64_t id = std::exchange(id_, 0);
  if (Client* client = std::exchange(client_, nullptr)) client->abort_draft(id);
}

}  // namespace rhizome
