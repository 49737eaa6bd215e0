// One session with a node: the socket, what was mapped when it began, and the questions that take an answer.
//
// States: alive -> broken (a question was not answered, or the node is gone). A broken session answers no question any
// more; what it has mapped stays good for reading until it is destroyed.
//
// Thread-safety: everything here may be called from any thread; one question is under way at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attach/frame.h"
#include "attach/lease_page.h"
#include "attach/notice_page.h"
#include "attach/staging.h"
#include "client/client.h"
#include "client/mapped_cache.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/local_socket.h"
#include "machine/mapping.h"

namespace rhizome {

class AttachedSession final : public MappedCache::Source {
 public:
  // As make_attached_client().
  static Result<std::unique_ptr<AttachedSession>> attach(const AttachedOptions& options);
  ~AttachedSession() override;

  // The reply to a question; an error that the node has sent, or kUnavailable from a broken session. `descriptors`:
  // receives those that come with the reply.
  template <class Reply>
  Result<Reply> ask(const AnyFrame& question, std::vector<Descriptor>* descriptors = nullptr) {
    const MutexLock lock(mutex_);
    const Status exchanged = exchange(question, descriptors);
    if (!exchanged) return fail(exchanged.error());
    return decode_reply<Reply>(reply_);
  }

  // Says what is not answered. When the node does not take it in `wait_ns`, nobody learns of it.
  void tell(const AnyFrame& frame, uint64_t wait_ns);
  uint64_t reply_wait_ns() const { return reply_wait_ns_; }

  // Whether what is found is kept while it is used. A node takes that back only when it ends the session, and a node
  // that was killed never does: what it left does not change any more.
  bool may_read() const { return notice_.front().revocations() == 0; }
  bool is_alive() const { return alive_.load(std::memory_order_relaxed) && (notice_.empty() || may_read()); }
  // The other side has hung up: all that is asked from now on is not answered.
  void note_end() { alive_.store(false, std::memory_order_relaxed); }
  // Another descriptor of its socket: to notice its end while it is gone.
  Result<Descriptor> duplicate_socket();
  uint32_t block_tokens() const { return block_tokens_; }
  MappedCache& cache() { return *cache_; }
  LeaseWriter& lease() { return lease_.front(); }
  const NoticeReader& notice() const { return notice_.front(); }
  StagingArea& staging() { return *staging_; }
  // Of the session's commit rings (attach/commit_rings.h); 0: there are none.
  uint32_t ring_records() const { return ring_records_; }
  std::span<std::byte> rings() const { return ring_memory_.bytes(); }

  // Does what the node asks for in the notice page. Between two uses; costs one load when there is nothing new.
  void heed_notices() {
    if (notice_.front().unmap_generation() != heeded_.load(std::memory_order_relaxed)) unmap_what_is_gone();
  }

  Result<SharedMemory> directory_segment(uint32_t number) override;
  Result<SharedMemory> chunk(uint32_t number) override;

 private:
  AttachedSession(LocalSocket socket, uint64_t reply_wait_ns)
      : reply_wait_ns_(reply_wait_ns), socket_(std::move(socket)), room_(kMessageBytesMax) {}
  Status begin(const AttachedOptions& options);
  Status map_pages(const WelcomeFrame& welcome, std::span<const Descriptor> descriptors);
  Status exchange(const AnyFrame& question, std::vector<Descriptor>* descriptors) REQUIRES(mutex_);
  Status break_with(const Error& error) {
    alive_.store(false, std::memory_order_relaxed);
    return fail(error);
  }
  Result<SharedMemory> directory(uint32_t number);
  void unmap_what_is_gone() EXCLUDES(heed_mutex_);

  const uint64_t reply_wait_ns_;
  std::atomic<bool> alive_{true};
  uint32_t block_tokens_ = 0;
  Mapping staging_memory_;
  Mapping lease_memory_;
  Mapping notice_memory_;
  Mapping ring_memory_;
  uint32_t ring_records_ = 0;
  std::unique_ptr<StagingArea> staging_;
  std::vector<LeaseWriter> lease_;    // one, once begun
  std::vector<NoticeReader> notice_;  // the same
  std::unique_ptr<MappedCache> cache_;

  Mutex heed_mutex_;
  std::atomic<uint32_t> heeded_{0};                 // the generation that was acknowledged
  uint32_t unmapping_ GUARDED_BY(heed_mutex_) = 0;  // the one that is being heeded

  Mutex mutex_;
  LocalSocket socket_ GUARDED_BY(mutex_);
  uint64_t last_request_ GUARDED_BY(mutex_) = 0;
  std::vector<std::byte> room_ GUARDED_BY(mutex_);
  std::span<const std::byte> reply_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
