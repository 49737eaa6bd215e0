// The node's side of a client's commit rings (attach/commit_rings.h), and the thread that serves them: what the client
// commits is stored beside what the node's own thread answers, so a client goes on writing while its blocks are copied.
//
// States: made -> served (a thread takes submissions, one at a time and in order, and sleeps while there are none) ->
// broken (the client wrote what cannot be, or did not take its completions; on_broken() was called, nothing is served
// any more). Destruction from any of them ends the thread: no later than what one block takes, since whoever performs a
// commit looks between two of them whether it is over.
//
// Thread-safety: belongs to one thread; is_over() and is_broken() may be called from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "attach/commit_rings.h"
#include "attach/frame.h"
#include "attach/message_ring.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {

class CommitRing {
 public:
  static constexpr uint32_t kRecords = 256;

  // Both are called from the ring's thread. `perform` stores, as long as the ring is not over; an error goes to the
  // client.
  struct Work {
    std::function<Result<CommittedFrame>(const CommitFrame& commit, const CommitRing& ring)> perform;
    std::function<void()> on_broken;
  };

  // kResourceExhausted: no memory.
  static Result<std::unique_ptr<CommitRing>> make(Work work);
  ~CommitRing();
  CommitRing(const CommitRing&) = delete;
  CommitRing& operator=(const CommitRing&) = delete;

  // Of commit_rings_bytes(kRecords) of memory.
  int descriptor() const { return memory_.descriptor(); }
  // Once. Where there is no thread to be had nothing is served, which the client can see.
  void start();

  bool is_over() const { return is_over_.load(std::memory_order_relaxed); }
  bool is_broken() const { return is_broken_.load(std::memory_order_relaxed); }

 private:
  CommitRing(Mapping memory, Work work);
  void serve() EXCLUDES(mutex_);
  // False: what it says is no commit, or there is no room for the completion.
  bool answer(const RingRecord& record);

  const Mapping memory_;
  const Work work_;
  RingConsumer submissions_;
  RingProducer completions_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_broken_{false};
  Mutex mutex_;
  CondVar ended_;
  bool has_ended_ GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace rhizome
