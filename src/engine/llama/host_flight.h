// Single flight between the processes that share a cache: what several engines want is computed by one of them, and the
// others wait for its blocks. (Inside one engine: single_flight.h.)
//
// States of a sequence here: idle -> holds a claim -> idle. The claim is made before its prompt is computed, and ends
// when that is stored, or does not go on: the sequence lost rows, its rows are not known any more, it took no part in
// many batches, or what it has computed is refused by the store. Nobody depends on that to be noticed: a claim of which
// nothing is heard ends by itself (Client::announce()).
//
// A hook that has to wait does not sleep at first: the server may have other sequences to compute for. It asks again
// behind the next batch; only when there was none, so that nobody has anything else to do, it sleeps. Whoever sleeps
// has withdrawn all that his engine had claimed: two engines cannot wait for each other. He sleeps no longer than
// computing for himself would take, a few times over, and in any case no longer than the owner is silent.
//
// Thread-safety: none; the connector's lock guards it, also while it sleeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/client.h"
#include "engine/llama/engine_context.h"
#include "engine/llama/sequence_table.h"

namespace rhizome {

class HostFlight {
 public:
  HostFlight(EngineContext& engine, const SequenceTable& sequences);

  // Whether there is anybody to wait for, or who might wait.
  bool is_on() const { return is_on_; }
  bool holds(int64_t seq) const { return slots_[static_cast<size_t>(seq)].announcement.is_ours(); }

  enum class Turn : uint8_t {
    kCompute,  // the rest of the prompt is ours to compute: nobody else does, or it does not pay to wait
    kWait,
  };
  // The sequence wants what it may have of `prompt` (whole blocks of it are considered), of which `available` tokens
  // are there or in the store. kCompute: and the others know.
  Turn take(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt, uint32_t available);
  // After kWait: whether the caller should rather be asked again behind the next batch.
  bool may_ask_again(int64_t seq);
  // After kWait: waits until all is there that somebody else computes, and then takes what is left.
  void await_others(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt);

  // Behind each batch, once its rows are stored.
  void end_batch();
  // Withdraws what will not be computed after all; cheap.
  void settle();

 private:
  struct Slot {
    Announcement announcement;
    std::vector<Token> prompt;    // that it is of
    uint32_t rows = 0;            // of the sequence, when it was last looked at
    uint32_t batches_idle = 0;    // without new rows
    uint64_t asked_again_at = 0;  // the number of the batch before which it was sent away
  };

  Slot& at(int64_t seq) { return slots_[static_cast<size_t>(seq)]; }
  bool goes_on(size_t seq) const;
  void withdraw(Slot& slot);
  // Makes way for the sequence: of two of this engine that want the same, it is the one that computes now.
  void withdraw_like(int64_t seq, std::span<const Token> blocks, size_t stored);
  Turn announce(int64_t seq, KeyspaceId keyspace, std::span<const Token> blocks, size_t first);
  // What computing so many tokens may take at most, as far as others should believe it.
  uint64_t patience_ns(uint64_t tokens) const;

  EngineContext& engine_;
  const SequenceTable& sequences_;
  const bool is_on_;
  const uint32_t block_tokens_;
  uint64_t batches_ = 1;
  std::vector<Slot> slots_;
};

}  // namespace rhizome
