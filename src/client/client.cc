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

void Draft::abort() {
  payloads_.clear();
  const uint64_t id = std::exchange(id_, 0);
  if (Client* client = std::exchange(client_, nullptr)) client->abort_draft(id);
}

Announcement::Announcement(Announcement&& other) noexcept {
  *this = std::move(other);
}

Announcement& Announcement::operator=(Announcement&& other) noexcept {
  if (this != &other) {
    withdraw();
    client_ = std::exchange(other.client_, nullptr);
    claim_ = other.claim_;
    session_ = other.session_;
    end_block_ = std::exchange(other.end_block_, 0);
  }
  return *this;
}

// Of clients that stand before others.

Result<ContextHandle> Client::publish(KeyspaceId, std::span<const Token>, const ContextTerms&) {
  return fail(Code::kUnimplemented, "this client hands nothing over");
}

Result<Context> Client::adopt(const ContextHandle&) {
  return fail(Code::kUnimplemented, "this client hands nothing over");
}

Status Client::unpublish(const ContextHandle&) {
  return fail(Code::kUnimplemented, "this client hands nothing over");
}

void Announcement::withdraw() {
  end_block_ = 0;
  if (Client* client = std::exchange(client_, nullptr)) client->withdraw_claim(claim_, session_);
}

}  // namespace rhizome
