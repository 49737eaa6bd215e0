#include "client/commits_under_way.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "machine/clock.h"

namespace rhizome {
namespace {

// How often who sleeps looks whether the session is over: where nobody notices its end, and where somebody did just
// before the sleep.
constexpr uint64_t kLookAgainNs = 20'000'000;

}  // namespace

CommitsUnderWay::CommitsUnderWay(AttachedSession& session, VisibleLater& visible)
    : session_(session), visible_(visible) {
  const uint32_t records = session.ring_records();
  if (records == 0) return;
  const MutexLock lock(mutex_);
  submissions_ = std::make_unique<RingProducer>(submissions_of(session.rings(), records), records);
  completions_ = std::make_unique<RingConsumer>(completions_of(session.rings(), records), records);
}

bool CommitsUnderWay::is_served() const {
  return session_.ring_records() != 0 &&
         commit_rings_head(session_.rings()).is_served.load(std::memory_order_acquire) != 0;  // pairs with the node
}

bool CommitsUnderWay::push(const CommitFrame& commit, Staged staged, Outcome* outcome) {
  const auto has_room = [this]() REQUIRES(mutex_) { return pending_.size() < session_.ring_records(); };
  for (;;) {
    if (!take_until(has_room)) {
      keep(std::move(staged.piece));
      return false;
    }
    const MutexLock lock(mutex_);
    if (!has_room()) continue;  // another thread was faster
    const Result<RingRecord> record = record_of_frame(commit, ++last_request_);
    const bool is_pushed = record && session_.is_alive() && submissions_->push(*record) == RingOutcome::kDone;
    if (!is_pushed) {
      session_.note_end();
      lose_all();
      kept_.push_back(std::move(staged.piece));
      return false;
    }
    pending_.push_back({.staged = std::move(staged), .request = last_request_, .outcome = outcome});
    return true;
  }
}

size_t CommitsUnderWay::await(const Outcome& outcome) {
  static_cast<void>(take_until([&] { return outcome.has_ended; }));
  const MutexLock lock(mutex_);
  return outcome.visible_count;
}

void CommitsUnderWay::take_in() {
  const MutexLock lock(mutex_);
  take_there();
}

bool CommitsUnderWay::wait_for_one() {
  uint64_t ended_before = 0;
  {
    const MutexLock lock(mutex_);
    if (pending_.empty()) return false;
    ended_before = ended_count_;
  }
  static_cast<void>(take_until([&]() REQUIRES(mutex_) { return ended_count_ != ended_before; }));
  return true;
}

void CommitsUnderWay::wait_for_all() {
  static_cast<void>(take_until([this]() REQUIRES(mutex_) { return pending_.empty(); }));
}

template <class Enough>
bool CommitsUnderWay::take_until(Enough is_enough) {
  uint64_t ended_before = 0;
  uint64_t deadline_ns = 0;
  for (;;) {
    uint64_t sleep_until_ns = 0;
    {
      const MutexLock lock(mutex_);
      take_there();
      if (is_enough()) return true;
      const uint64_t now_ns = monotonic_now_ns();
      // As long as the node goes on it is waited for.
      if (deadline_ns == 0 || ended_count_ != ended_before) deadline_ns = now_ns + session_.reply_wait_ns();
      ended_before = ended_count_;
      if (now_ns >= deadline_ns) session_.note_end();
      if (!session_.is_alive()) {
        lose_all();
        return is_enough();
      }
      if (is_taking_) {
        changed_.wait_for(mutex_, kLookAgainNs);
        continue;
      }
      is_taking_ = true;
      sleep_until_ns = std::min(deadline_ns, now_ns + kLookAgainNs);
    }
    RingRecord record;
    const RingOutcome outcome = completions_->pop_until(record, sleep_until_ns);
    const MutexLock lock(mutex_);
    is_taking_ = false;
    take(outcome, record);
    changed_.notify_all();
  }
}

void CommitsUnderWay::take_there() {
  if (is_taking_ || completions_ == nullptr) return;
  RingRecord record;
  RingOutcome outcome = RingOutcome::kDone;
  while (!pending_.empty() && outcome == RingOutcome::kDone) {
    outcome = completions_->pop(record);
    take(outcome, record);
  }
}

void CommitsUnderWay::take(RingOutcome outcome, const RingRecord& record) {
  if (outcome == RingOutcome::kBusy) return;
  if (outcome == RingOutcome::kDone && end_first(record)) return;
  // A node that says what makes no sense is as good as gone.
  session_.note_end();
  lose_all();
}

bool CommitsUnderWay::end_first(const RingRecord& record) {
  const Result<RecordedFrame> completion = frame_of_record(record);
  if (!completion || pending_.empty() || completion->request != pending_.front().request) return false;
  const auto* const committed = std::get_if<CommittedFrame>(&completion->frame);
  if (committed == nullptr && !std::holds_alternative<ErrorFrame>(completion->frame)) return false;
  const size_t visible = committed == nullptr ? 0 : committed->visible_count;
  if (Outcome* const outcome = pending_.front().outcome) {
    *outcome = {.has_ended = true, .visible_count = visible};
  } else {
    visible_.add(visible, pending_.front().staged.payload_bytes);
  }
  pending_.pop_front();
  ++ended_count_;
  return true;
}

void CommitsUnderWay::lose_all() {
  for (Pending& lost : pending_) {
    if (lost.outcome != nullptr) lost.outcome->has_ended = true;
    kept_.push_back(std::move(lost.staged.piece));
  }
  ended_count_ += pending_.size();
  pending_.clear();
}

std::vector<CommitsUnderWay::Part> CommitsUnderWay::parts_of(uint32_t keyspace, std::span<const Token> tokens) const {
  std::vector<Part> parts;
  const MutexLock lock(mutex_);
  const uint32_t block_tokens = session_.block_tokens();
  for (const Pending& pending : pending_) {
    if (pending.staged.keyspace != keyspace) continue;
    const std::span<const Token> own(reinterpret_cast<const Token*>(pending.staged.piece.bytes().data()),
                                     pending.staged.tokens_count);
    const auto common = static_cast<size_t>(std::ranges::mismatch(own, tokens).in1 - own.begin());
    const auto end = static_cast<uint32_t>(common / block_tokens);
    if (end > pending.staged.first_block) parts.push_back({pending.staged.first_block, end});
  }
  return parts;
}

void CommitsUnderWay::keep(StagingPiece piece) {
  const MutexLock lock(mutex_);
  kept_.push_back(std::move(piece));
}

void CommitsUnderWay::note_end() {
  if (completions_ != nullptr) completions_->interrupt();
}

}  // namespace rhizome
