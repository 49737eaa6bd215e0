// What stands behind the handles of the C interface. Each holds what it was made from.
//
// Thread-safety: a client and a keyspace may be used from any thread, as a Client may, an announcement because nothing
// changes it; a hit and a draft under their mutex.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "block/token.h"
#include "client/c/call.h"
#include "client/c/handles.h"
#include "client/client.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "telemetry/counters.h"

namespace rhizome {

class ClientObject final : public HandleObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kClient;

  ClientObject(std::unique_ptr<Counters> own_counters, std::unique_ptr<Client> opened)
      : counters(std::move(own_counters)), client(std::move(opened)) {}

  const std::unique_ptr<Counters> counters;  // longer than the client, which counts to its end
  const std::unique_ptr<Client> client;
};

class KeyspaceObject final : public HandleObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kKeyspace;

  KeyspaceObject(Held<ClientObject> opened_with, KeyspaceId opened, uint64_t bytes)
      : owner(std::move(opened_with)), id(opened), payload_bytes(bytes) {}

  Client& client() const { return *owner->client; }

  const Held<ClientObject> owner;
  const KeyspaceId id;
  const uint64_t payload_bytes;
};

class HitObject final : public HandleObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kHit;

  explicit HitObject(Held<ClientObject> looked_up_with) : owner(std::move(looked_up_with)) {}

  const Held<ClientObject> owner;
  Mutex mutex;
  // Of the blocks that were found. A caller that gave another prompt with read() would have them quarantined.
  std::vector<Token> tokens GUARDED_BY(mutex);
  Hit hit GUARDED_BY(mutex);
  std::vector<Token> context;  // all tokens of the one that it was adopted with; never changed while somebody knows it
};

class DraftObject final : public HandleObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kDraft;

  DraftObject(Held<ClientObject> reserved_with, Draft reserved)
      : owner(std::move(reserved_with)), draft(std::move(reserved)) {}

  const Held<ClientObject> owner;
  Mutex mutex;
  Draft draft GUARDED_BY(mutex);
};

class AnnouncementObject final : public HandleObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kAnnouncement;

  AnnouncementObject(Held<ClientObject> announced_with, Announcement made)
      : owner(std::move(announced_with)), announcement(std::move(made)) {}

  const Held<ClientObject> owner;
  const Announcement announcement;  // ends with this
};

// kInvalidArgument, with `reason`: it is closed, or was never a handle of such an object.
template <class T>
Result<Held<T>> held_by(const void* handle, const char* reason) {
  Held<T> held = Held<T>::of(handle);
  if (!held) return fail(Code::kInvalidArgument, reason);
  return held;
}

template <class Handle, class T>
Status give(Handle** out, std::unique_ptr<T> object) {
  *out = std::bit_cast<Handle*>(HandleTable::of_process().add(T::kKind, std::move(object)));
  if (*out == nullptr) return fail(Code::kResourceExhausted, "too many handles");
  return {};
}

template <class T>
rhizome_code close_handle(const void* handle) noexcept {
  return answer(nullptr, [&]() -> Status {
    if (handle == nullptr) return {};
    if (HandleTable::of_process().close(std::bit_cast<uint64_t>(handle), T::kKind)) return {};
    return fail(Code::kInvalidArgument, "this is no open handle of that kind");
  });
}

}  // namespace rhizome
