// The commits that a client has handed to its node over the rings of one session (attach/commit_rings.h), until it is
// known what became of them. The node does them in order, so the first that is under way is the first that ends.
//
// A commit under way keeps its piece of the staging memory: the node may read it until its completion has been taken
// in. When the session ends first, nobody knows what it still reads, so the pieces stay taken until the session goes;
// what is under way then is lost.
//
// Thread-safety: everything here may be called from any thread. Waiting ends with the session, or when the node has
// done nothing for as long as an answer may take, which ends the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "attach/commit_rings.h"
#include "attach/frame.h"
#include "attach/message_ring.h"
#include "attach/staging.h"
#include "block/token.h"
#include "client/attached_session.h"
#include "client/visible_later.h"
#include "concurrency/mutex.h"

namespace rhizome {

class CommitsUnderWay {
 public:
  // What a commit is of: `piece` begins with the tokens.
  struct Staged {
    StagingPiece piece;
    uint32_t keyspace = 0;  // the client's number
    uint32_t tokens_count = 0;
    uint32_t first_block = 0;
    uint64_t payload_bytes = 0;  // of a block
  };
  // What became of it, where somebody waits for that.
  struct Outcome {
    bool has_ended = false;
    size_t visible_count = 0;
  };
  // Blocks of some tokens that commits under way bring, if all before them are there.
  struct Part {
    uint32_t first = 0;
    uint32_t end = 0;
  };

  // `visible` counts what became visible where nobody waits for it. Both outlive this.
  CommitsUnderWay(AttachedSession& session, VisibleLater& visible);
  CommitsUnderWay(const CommitsUnderWay&) = delete;
  CommitsUnderWay& operator=(const CommitsUnderWay&) = delete;

  // Once a keyspace was opened: whether the node takes commits this way.
  bool is_served() const;

  // Hands a commit over; while as many are under way as the ring takes, waits for the first. False: the session is
  // over. `outcome`: null, or stays until await() has returned.
  bool push(const CommitFrame& commit, Staged staged, Outcome* outcome) EXCLUDES(mutex_);
  // How many blocks became visible.
  size_t await(const Outcome& outcome) EXCLUDES(mutex_);
  // Takes in what has ended.
  void take_in() EXCLUDES(mutex_);
  // Waits until one fewer is under way; false: none is.
  bool wait_for_one() EXCLUDES(mutex_);
  void wait_for_all() EXCLUDES(mutex_);

  // What is under way of these tokens of a keyspace (the client's number), in order.
  std::vector<Part> parts_of(uint32_t keyspace, std::span<const Token> tokens) const EXCLUDES(mutex_);

  // For good: nobody knows whether the node still reads it.
  void keep(StagingPiece piece) EXCLUDES(mutex_);
  // The other side has hung up: whoever waits learns of it.
  void note_end();

 private:
  struct Pending {
    Staged staged;
    uint64_t request = 0;
    Outcome* outcome = nullptr;
  };

  // Takes in until `is_enough()`, which is asked with the lock held. False: the session is over first.
  template <class Enough>
  bool take_until(Enough is_enough) EXCLUDES(mutex_);
  // Pops what is there, unless another thread does.
  void take_there() REQUIRES(mutex_);
  void take(RingOutcome outcome, const RingRecord& record) REQUIRES(mutex_);
  bool end_first(const RingRecord& record) REQUIRES(mutex_);
  void lose_all() REQUIRES(mutex_);

  AttachedSession& session_;
  VisibleLater& visible_;
  mutable Mutex mutex_;
  CondVar changed_;
  // Both null without rings.
  std::unique_ptr<RingProducer> submissions_ GUARDED_BY(mutex_);
  // Of whoever has the lock, or, while is_taking_, of the thread that has set that, which sleeps without the lock.
  std::unique_ptr<RingConsumer> completions_;
  bool is_taking_ GUARDED_BY(mutex_) = false;
  std::deque<Pending> pending_ GUARDED_BY(mutex_);
  uint64_t last_request_ GUARDED_BY(mutex_) = 0;
  uint64_t ended_count_ GUARDED_BY(mutex_) = 0;
  std::vector<StagingPiece> kept_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
