#include "engine/llama/host_flight.h"

#include <algorithm>
#include <utility>

#include "machine/clock.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// To ask costs some ten microseconds, to wait some more: computing less than this is not worth it.
constexpr uint32_t kWorthTokens = 64;
// Of batches in which other prompts have filled the server's batch.
constexpr uint32_t kBatchesIdleMax = 16;
// How many times longer than expected something may take.
constexpr double kLenience = 4;
constexpr uint64_t kPatienceLeastNs = 2'000'000'000;
constexpr uint64_t kPatienceMostNs = 60'000'000'000;
// Of an engine that has not computed anything yet.
constexpr uint64_t kPatienceUnknownNs = 30'000'000'000;

}  // namespace

HostFlight::HostFlight(EngineContext& engine, const SequenceTable& sequences)
    : engine_(engine),
      sequences_(sequences),
      is_on_(engine.client.is_shared()),
      block_tokens_(engine.facts.block_tokens),
      slots_(sequences.count()) {}

uint64_t HostFlight::patience_ns(uint64_t tokens) const {
  const double seconds = engine_.seconds_per_token() * static_cast<double>(tokens) * kLenience;
  if (seconds <= 0) return kPatienceUnknownNs;
  const double most = static_cast<double>(kPatienceMostNs) * 1e-9;
  return std::max(kPatienceLeastNs, static_cast<uint64_t>(std::min(seconds, most) * 1e9));
}

void HostFlight::withdraw(Slot& slot) {
  slot.announcement = Announcement();
  slot.prompt.clear();
  slot.rows = 0;
  slot.batches_idle = 0;
}

void HostFlight::withdraw_like(int64_t seq, std::span<const Token> blocks, size_t stored) {
  for (size_t other = 0; other < slots_.size(); ++other) {
    Slot& slot = slots_[other];
    const bool is_like = other != static_cast<size_t>(seq) && slot.announcement.is_ours() &&
                         common_prefix(slot.prompt, blocks) / block_tokens_ > stored;
    if (is_like) withdraw(slot);
  }
}

HostFlight::Turn HostFlight::announce(int64_t seq, KeyspaceId keyspace, std::span<const Token> blocks, size_t first) {
  const size_t end = blocks.size() / block_tokens_;
  Slot& slot = at(seq);
  // Pieces of a micro-batch are stored one by one; the first comes behind whatever shares its batch.
  const uint64_t piece = std::max(engine_.api.n_ubatch(engine_.context), engine_.api.n_batch(engine_.context));
  slot.announcement = engine_.client.announce(keyspace, blocks, first, end, patience_ns(piece));
  if (slot.announcement.is_ours()) slot.prompt.assign(blocks.begin(), blocks.end());
  return slot.announcement.is_others() ? Turn::kWait : Turn::kCompute;
}

HostFlight::Turn HostFlight::take(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt, uint32_t available) {
  if (!is_on_ || keyspace == KeyspaceId{}) return Turn::kCompute;
  Slot& slot = at(seq);
  const auto blocks = prompt.first(prompt.size() / block_tokens_ * block_tokens_);
  if (slot.announcement.is_ours() && slot.prompt.size() == blocks.size() &&
      common_prefix(slot.prompt, blocks) == blocks.size()) {
    return Turn::kCompute;
  }
  withdraw(slot);
  if (blocks.size() < available + kWorthTokens) return Turn::kCompute;
  // What is live here and not stored is ours to store.
  const size_t stored = engine_.client.peek(keyspace, blocks) / block_tokens_;
  withdraw_like(seq, blocks, stored);
  if (announce(seq, keyspace, blocks, stored) == Turn::kCompute) return Turn::kCompute;
  return slot.announcement.end_block() * block_tokens_ >= available + kWorthTokens ? Turn::kWait : Turn::kCompute;
}

bool HostFlight::may_ask_again(int64_t seq) {
  return std::exchange(at(seq).asked_again_at, batches_) != batches_;
}

void HostFlight::await_others(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt) {
  Slot& slot = at(seq);
  const auto blocks = prompt.first(prompt.size() / block_tokens_ * block_tokens_);
  size_t awaited = slot.announcement.end_block();
  for (Slot& other : slots_)
    withdraw(other);
  const uint64_t begin_ns = monotonic_now_ns();
  size_t stored = engine_.client.peek(keyspace, blocks) / block_tokens_;
  const uint64_t give_up_ns = begin_ns + patience_ns(blocks.size() - stored * block_tokens_);
  for (;;) {
    while (stored < awaited) {
      const Arrival arrival = engine_.client.wait(keyspace, blocks, stored, give_up_ns);
      if (arrival.blocks <= stored) break;
      stored = arrival.blocks;
    }
    const bool is_late = monotonic_now_ns() >= give_up_ns;
    const size_t missing = blocks.size() - stored * block_tokens_;
    log_debug("sequence {}: {} blocks of {} came from another process{}", seq, stored, blocks.size() / block_tokens_,
              is_late ? ", late" : "");
    if (is_late || missing < kWorthTokens) return;
    // Behind what the other one computed, or instead of him: somebody else may have been faster with that, too.
    if (announce(seq, keyspace, blocks, stored) == Turn::kCompute) return;
    awaited = slot.announcement.end_block();
    if ((awaited - stored) * block_tokens_ < kWorthTokens) return;
  }
}

bool HostFlight::goes_on(size_t seq) const {
  const Slot& slot = slots_[seq];
  const Sequence& sequence = sequences_.at(static_cast<int64_t>(seq));
  const auto claimed = slot.announcement.end_block() * block_tokens_;
  const size_t rows = std::min<size_t>(sequence.rows(), slot.prompt.size());
  const bool is_known = !sequence.tainted && !sequence.lost && !sequence.bypass && sequence.parked == 0;
  return is_known && sequence.in_prompt && sequence.rows() >= slot.rows && sequence.published_rows < claimed &&
         sequence.refused_rows <= sequence.published_rows && slot.batches_idle <= kBatchesIdleMax &&
         common_prefix(sequence.tokens, slot.prompt) == rows;
}

void HostFlight::settle() {
  if (!is_on_) return;
  for (size_t seq = 0; seq < slots_.size(); ++seq) {
    if (slots_[seq].announcement.is_ours() && !goes_on(seq)) withdraw(slots_[seq]);
  }
}

void HostFlight::end_batch() {
  ++batches_;
  if (!is_on_) return;
  settle();
  for (size_t seq = 0; seq < slots_.size(); ++seq) {
    Slot& slot = slots_[seq];
    if (!slot.announcement.is_ours()) continue;
    const uint32_t rows = sequences_.at(static_cast<int64_t>(seq)).rows();
    slot.batches_idle = rows > slot.rows ? 0 : slot.batches_idle + 1;
    slot.rows = rows;
  }
}

}  // namespace rhizome
