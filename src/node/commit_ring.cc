#include "node/commit_ring.h"

#include <utility>
#include <variant>

#include "machine/clock.h"

namespace rhizome {
namespace {

// Nobody asks for more than that a thread without work does not run.
constexpr uint64_t kSleepNs = 600'000'000'000;
// A thread that has missed an interruption because it was just about to sleep is interrupted again.
constexpr uint64_t kInterruptAgainNs = 1'000'000;

}  // namespace

Result<std::unique_ptr<CommitRing>> CommitRing::make(Work work) {
  Result<Mapping> memory = Mapping::shareable(commit_rings_bytes(kRecords), Mapping::Sharing::kWritable);
  if (!memory) return fail(memory.error());
  return std::unique_ptr<CommitRing>(new CommitRing(std::move(*memory), std::move(work)));
}

CommitRing::CommitRing(Mapping memory, Work work)
    : memory_(std::move(memory)),
      work_(std::move(work)),
      submissions_(submissions_of(memory_.bytes(), kRecords), kRecords),
      completions_(completions_of(memory_.bytes(), kRecords), kRecords) {}

CommitRing::~CommitRing() {
  if (!thread_.joinable()) return;
  is_over_.store(true, std::memory_order_relaxed);
  {
    const MutexLock lock(mutex_);
    while (!has_ended_) {
      submissions_.interrupt();
      ended_.wait_for(mutex_, kInterruptAgainNs);
    }
  }
  thread_.join();
}

void CommitRing::start() {
  if (thread_.joinable()) return;
  Result<Thread> thread = start_thread("rhizome-commits", [this] { serve(); });
  if (!thread) return;
  thread_ = std::move(*thread);
  commit_rings_head(memory_.bytes()).is_served.store(1, std::memory_order_release);
}

void CommitRing::serve() {
  RingRecord record;
  while (!is_over()) {
    const RingOutcome outcome = submissions_.pop_until(record, monotonic_now_ns() + kSleepNs);
    if (outcome == RingOutcome::kBusy) continue;
    if (outcome == RingOutcome::kDone && answer(record)) continue;
    is_broken_.store(true, std::memory_order_relaxed);
    work_.on_broken();
    break;
  }
  const MutexLock lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

bool CommitRing::answer(const RingRecord& record) {
  const Result<RecordedFrame> submitted = frame_of_record(record);
  const CommitFrame* const commit = submitted ? std::get_if<CommitFrame>(&submitted->frame) : nullptr;
  if (commit == nullptr) return false;
  const Result<CommittedFrame> committed = work_.perform(*commit, *this);
  if (is_over()) return true;
  const AnyFrame reply = committed ? AnyFrame(*committed) : AnyFrame(ErrorFrame{.code = committed.error().code});
  const Result<RingRecord> completion = record_of_frame(reply, submitted->request);
  return completion && completions_.push(*completion) == RingOutcome::kDone;
}

}  // namespace rhizome
