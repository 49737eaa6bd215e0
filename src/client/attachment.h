// A session with a node as a client uses it: who uses it keeps it, and what is known of it once.
//
// Thread-safety: an Attachment may be used from any thread, a Use by one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "attach/frame.h"
#include "client/attached_session.h"
#include "client/commits_under_way.h"
#include "concurrency/mutex.h"
#include "index/index_reader.h"

namespace rhizome {

inline constexpr uint32_t kKeyspacesMax = 4096;

// A keyspace in one session.
struct OpenedKeyspace {
  OpenedKeyspace(KeyspaceNumber at_node, SharedRoot begins) : number(at_node), packed_root(pack(begins)) {}

  SharedRoot root() const {
    const uint64_t packed = packed_root.load(std::memory_order_relaxed);
    return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
  }
  void set_root(SharedRoot root) { packed_root.store(pack(root), std::memory_order_relaxed); }
  static uint64_t pack(SharedRoot root) { return uint64_t{root.ver} << 32 | root.run; }

  const KeyspaceNumber number;
  std::atomic<uint64_t> packed_root;
};

// A session, and what is known of it.
struct Attachment {
  // `visible`: as CommitsUnderWay.
  Attachment(std::unique_ptr<AttachedSession> begun, uint64_t own_number, VisibleLater& visible)
      : session(std::move(begun)), commits(*session, visible), number(own_number) {}

  const std::unique_ptr<AttachedSession> session;
  CommitsUnderWay commits;
  const uint64_t number;  // among those of this client
  std::atomic<uint32_t> uses{0};
  std::array<std::atomic<OpenedKeyspace*>, kKeyspacesMax + 1> opened{};  // by the client's number of the keyspace
  Mutex mutex;
  std::deque<OpenedKeyspace> owned GUARDED_BY(mutex);
};

// Keeps an attachment: once another one has begun it ends with its last use.
class Use {
 public:
  Use() = default;
  explicit Use(Attachment& used) : used_(&used) { used.uses.fetch_add(1, std::memory_order_acq_rel); }
  ~Use() { reset(); }
  Use(Use&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    if (this != &other) {
      reset();
      used_ = std::exchange(other.used_, nullptr);
    }
    return *this;
  }

  Attachment* get() const { return used_; }
  AttachedSession& session() const { return *used_->session; }
  void reset() {
    if (Attachment* const used = std::exchange(used_, nullptr)) used->uses.fetch_sub(1, std::memory_order_acq_rel);
  }

 private:
  Attachment* used_ = nullptr;
};

}  // namespace rhizome
