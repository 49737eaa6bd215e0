// Idle sequences: in a unified cache everybody's attention passes over their rows, so those that are stored leave it.
// What is behind the last whole block goes, too, into memory of the sequence's own: attention passes over all cells up
// to the last one in use, and the last ones are where these rows lie.
#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "engine/llama/connector.h"
#include "engine/llama/hook_time.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Fewer rows slow nobody down.
constexpr uint32_t kWorthParkingRows = 64;

}  // namespace

int32_t Connector::set_idle(int32_t seq, int32_t have) {
  MutexLock lock(mutex_);
  const HookTime time(engine_, Counter::kHookTime);
  if (!sequences_.contains(seq)) return have;
  // The rows that a window holds cannot be put before others, and another sequence cannot share them.
  if (engine_.facts.shape.window > 0) return may_leave(seq) ? 0 : have;
  sequences_.at(seq).idle = true;
  return have;
}

// The sequences that were named idle for this question: before the next one, a request may use any of them.
std::vector<int32_t> Connector::take_idle(int32_t asking) {
  std::vector<int32_t> idle;
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    const auto seq = static_cast<int32_t>(other);
    if (std::exchange(sequences_.at(seq).idle, false) && seq != asking) idle.push_back(seq);
  }
  return idle;
}

// Parks those of them that can be. True if there was one.
bool Connector::park(std::span<const int32_t> idle) {
  bool any = false;
  for (const int32_t seq : idle) {
    if (!may_leave(seq)) continue;
    Sequence& sequence = sequences_.at(seq);
    const uint32_t rows = sequence.published_rows / engine_.facts.block_tokens * engine_.facts.block_tokens;
    engine_.api.memory_seq_rm(engine_.memory, seq, 0, static_cast<llama_pos>(rows));
    if (rows < sequence.rows()) transfer_.take_rows(seq, sequence.tail);
    sequence.tail_checksum = checksum(sequence.tail);
    engine_.api.memory_seq_rm(engine_.memory, seq, -1, -1);
    sequences_.park(seq, rows);
    engine_.counters.add(Counter::kSequencesParked);
    any = true;
  }
  return any;
}

bool Connector::before_read(int32_t seq) {
  MutexLock lock(mutex_);
  bool all = true;
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    if (seq < 0 || static_cast<int32_t>(other) == seq) all = revive(static_cast<int32_t>(other)) && all;
  }
  return all;
}

// Whether it helps others when the sequence's rows leave the cache, and the store has all whole blocks of them: what it
// had once may have been evicted.
bool Connector::may_leave(int32_t seq) {
  const Sequence& sequence = sequences_.at(seq);
  const ContextShape& shape = engine_.facts.shape;
  const uint32_t block = engine_.facts.block_tokens;
  // With a stream for each sequence nobody else's attention passes over its rows.
  if (!engine_.facts.plan.unified || !options_.restore || sequence.tainted || sequence.lost || sequence.bypass ||
      sequence.rows() / block * block < sequence.parked + kWorthParkingRows ||
      options_.store_bytes / 2 < shape.cells * (shape.blob.payload_bytes(block) / block)) {
    return false;
  }
  publish(seq);
  const KeyspaceId keyspace = variants_.keyspace(sequence.variant);
  return keyspace != KeyspaceId{} && sequence.published_rows / block == sequence.rows() / block &&
         engine_.client.peek(keyspace, sequence.tokens) / block == sequence.rows() / block;
}

// Brings the parked rows back: live ones of another sequence, then stored ones, then those behind them. The sequence
// then has all of its rows, or only the first of them when the store has no more. kNoCells: it is parked as before.
Transfer::Outcome Connector::unpark(int32_t seq, uint32_t rows_in_all, bool what_fits) {
  Sequence& sequence = sequences_.at(seq);
  const uint32_t rows = sequence.parked;
  std::vector<Token> tokens = sequences_.take_parked(seq);
  const auto parked = std::span<const Token>(tokens).first(rows);
  share_live(seq, parked);
  const auto outcome = restore_stored(seq, parked, engine_.facts.block_tokens, rows_in_all, what_fits);
  if (outcome == Transfer::Outcome::kNoCells) {
    engine_.api.memory_seq_rm(engine_.memory, seq, -1, -1);
    sequences_.truncate(seq, 0);
    sequences_.put_parked(seq, std::move(tokens), rows);
    return outcome;
  }
  const std::vector<std::byte> tail = std::exchange(sequence.tail, {});
  const auto behind = std::span<const Token>(tokens).subspan(rows);
  if (outcome != Transfer::Outcome::kDone || sequence.rows() < rows) return outcome;
  sequence.published_rows = rows;
  if (behind.empty() || tail.empty() || checksum(tail) != sequence.tail_checksum) return outcome;
  const auto put = transfer_.put_rows(seq, tail, behind);
  if (put == Transfer::Outcome::kBroken) {
    recover();
    sequences_.empty(seq);
  }
  return put == Transfer::Outcome::kBroken ? put : outcome;
}

// For whoever uses the sequence without asking the hook: what the store has not any more is computed again.
bool Connector::revive_parked(int32_t seq) {
  Sequence& sequence = sequences_.at(seq);
  const std::vector<Token> tokens = sequence.tokens;
  unpark(seq, sequence.rows(), true);
  if (sequence.rows() == tokens.size()) return true;
  log_debug("sequence {}: {} of {} parked rows are no longer stored", seq, tokens.size() - sequence.rows(),
            tokens.size());
  engine_.api.memory_seq_rm(engine_.memory, seq, -1, -1);
  sequence.tokens = tokens;
  sequences_.lose(seq);
  return rebuild(seq);
}

// Before a request that may use the first `own` rows of a parked sequence; sets `own` to what is there then. False:
// there are no cells for them, and nothing was done.
bool Connector::use_parked(const Request& request, uint32_t& own) {
  const int32_t seq = request.seq;
  const uint32_t parked = sequences_.at(seq).parked;
  if (own <= parked) {
    // The rows behind the parked ones are of no use: what is is found like any other prompt's.
    drop_rows(seq, 0);
    own = 0;
    return true;
  }
  const auto rows_in_all = std::max(sequences_.at(seq).rows(), static_cast<uint32_t>(request.prompt.size()));
  const bool what_fits = (request.flags & kWhatFits) != 0;
  if (unpark(seq, rows_in_all, what_fits) == Transfer::Outcome::kNoCells) return false;
  own = std::min(own, sequences_.at(seq).rows());
  return true;
}

}  // namespace rhizome
