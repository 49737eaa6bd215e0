#include "client/client.h"

#include <utility>

namespace rhizome {

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

Reason Client::explain(KeyspaceId, std::span<const Token>, const Hit& hit) {
  return hit.reason();
}

void Draft::abort() {
  payloads_.clear();
  const uint64_t id = std::exchange(id_, 0);
  if (Client* client = std::exchange(client_, nullptr)) client->abort_draft(id);
}

}  // namespace rhizome
