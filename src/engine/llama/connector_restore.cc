// The hook: what a request already has, what it may wait for, what is put in place of computing it.
#include <algorithm>

#include "client/stopped.h"
#include "engine/llama/connector.h"
#include "engine/llama/hook_time.h"

namespace rhizome {
namespace {

// Waiting costs a round of batches: not for less than this.
constexpr uint32_t kWorthWaitingTokens = 8;

}  // namespace

int32_t Connector::restore(int32_t seq, std::span<const Token> prompt, int32_t have, std::string_view salt,
                           uint32_t flags) {
  MutexLock lock(mutex_);
  const HookTime time(engine_, Counter::kHookTime);
  const bool bypass = (flags & kBypass) != 0;
  if (!sequences_.contains(seq) || have < 0) return have;
  if (!bypass && prompt.size() <= static_cast<size_t>(have)) return have;
  auto held = static_cast<uint32_t>(have);
  if (!settle(seq, prompt, held, salt, bypass)) return static_cast<int32_t>(held);
  Sequence& sequence = sequences_.at(seq);
  sequence.hooked = (flags & kAdaptersPending) == 0;
  if (bypass || !sequence.hooked) {
    if (bypass && !sequence.counted) {
      engine_.counters.add(Counter::kBypassed);
      stopped_ = Reason::kBypass;
      count(sequence, prompt.size(), held, held);
    }
    if (held < sequence.rows()) drop_rows(seq, held);
    return static_cast<int32_t>(held);
  }
  const bool continues = sequence.counted && held == sequence.accepted();
  if (continues && (exact() || !options_.restore)) {
    flight_.claim(seq);
    return static_cast<int32_t>(held);
  }
  if (!options_.restore) {
    drop_rows(seq, 0);
    sequence.variant = variants_.now(sequence.salt);
    stopped_ = Reason::kOff;
    count(sequence, prompt.size(), 0, 0);
    return 0;
  }
  return engine_.facts.plan.unified ? restore_unified(seq, held, (flags & kWhatFits) != 0) : restore_streams(seq, held);
}

// Brings the shadow and the caller's view of the sequence together. False: leave the sequence alone.
bool Connector::settle(int32_t seq, std::span<const Token> prompt, uint32_t& have, std::string_view salt,
                       bool bypass) {
  {
    const Sequence& sequence = sequences_.at(seq);
    const bool occupied = sequence.tainted || sequence.accepted() > 0;
    const bool foreign = occupied && (sequence.salt != salt || sequence.bypass != bypass);
    const bool unused = sequence.tainted && have == 0;
    if (foreign || unused || (sequence.lost && have > 0)) {
      forget(seq);
      have = 0;
    }
  }
  Sequence& sequence = sequences_.at(seq);
  sequence.salt = salt;
  sequence.bypass = bypass;
  // A prompt with media has no tokens to tell; that it must not be stored is all there is to know.
  if (sequence.tainted || prompt.size() <= have) return false;
  if (sequence.lost) {
    sequences_.truncate(seq, 0);
    sequence.lost = false;
  }
  if (!sequence.in_prompt || !std::equal(prompt.begin(), prompt.end(), sequence.prompt.begin(), sequence.prompt.end())) {
    sequence.prompt.assign(prompt.begin(), prompt.end());
    sequence.in_prompt = true;
    sequence.counted = false;
  }
  const uint32_t from_rows = std::min(have, sequence.rows());
  const bool same = have <= sequence.accepted() && common_prefix(sequence.tokens, prompt) >= from_rows &&
                    std::equal(prompt.begin() + from_rows, prompt.begin() + have, sequence.held.begin());
  if (same) return true;
  taint(seq);  // the caller knows rows that we do not
  return false;
}

int32_t Connector::restore_unified(int32_t seq, uint32_t have, bool what_fits) {
  Sequence& sequence = sequences_.at(seq);
  const std::span<const Token> all(sequence.prompt);
  const auto prompt = all.first(all.size() - 1);  // one token is always left to compute
  const bool windowed = engine_.facts.shape.window > 0;
  const VariantId variant = variants_.now(sequence.salt);
  if (sequence.rows() > 0 && sequence.variant != variant) drop_rows(seq, 0);
  // Rows beyond what the caller counts on stay if they are the prompt's; a window may have passed them, though.
  const uint32_t own = windowed ? std::min(have, sequence.rows()) : common_prefix(sequence.tokens, prompt);
  drop_rows(seq, own);
  sequence.variant = variant;
  const uint32_t unit = windowed ? engine_.facts.block_tokens : 1;
  if (flight_.should_wait(seq, prompt, variant, available(seq, prompt, unit), unit, kWorthWaitingTokens)) {
    engine_.counters.add(Counter::kWaits);
    return kAskAgain;
  }
  const uint32_t kept = std::min(have, sequence.rows());
  share_live(seq, prompt);
  const auto outcome = restore_stored(seq, prompt, engine_.facts.block_tokens, static_cast<uint32_t>(all.size()), what_fits);
  if (outcome == Transfer::Outcome::kNoCells) return kNoCells;
  count(sequences_.at(seq), all.size(), kept, sequences_.at(seq).rows());
  flight_.claim(seq);
  return static_cast<int32_t>(sequences_.at(seq).rows());
}

int32_t Connector::restore_streams(int32_t seq, uint32_t have) {
  Sequence& sequence = sequences_.at(seq);
  const std::span<const Token> all(sequence.prompt);
  const uint32_t unit = exact() ? kExactUnit : engine_.facts.block_tokens;
  const auto prompt = all.first((all.size() - 1) / unit * unit);
  const VariantId variant = variants_.now(sequence.salt);
  if (sequence.rows() > 0 && sequence.variant != variant) drop_rows(seq, 0);
  // In exact mode only rows computed in whole units may stay: the others depend on how they were batched.
  const uint32_t own = exact() ? std::min(sequence.exact_rows, common_prefix(sequence.tokens, prompt)) / unit * unit
                               : std::min(have, sequence.rows());
  drop_rows(seq, own);
  sequence.variant = variant;
  if (flight_.should_wait(seq, prompt, variant, available(seq, prompt, unit), unit, 0)) {
    engine_.counters.add(Counter::kWaits);
    return kAskAgain;
  }
  restore_stored(seq, prompt, unit, static_cast<uint32_t>(all.size()), true);
  Sequence& restored = sequences_.at(seq);
  if (exact()) restored.exact_rows = restored.rows();
  count(restored, all.size(), own, restored.rows());
  flight_.claim(seq);
  return static_cast<int32_t>(restored.rows());
}

uint32_t Connector::live_tokens(int32_t seq, std::span<const Token> prompt, int32_t& donor) const {
  // The window of a live sequence may have passed the rows that a shorter prefix needs, and cells that two
  // sequences share are never used again by the engine: windowed rows come from the store only.
  if (!engine_.facts.plan.unified || engine_.facts.shape.window > 0) return 0;
  const Sequence& asker = sequences_.at(seq);
  uint32_t best = 0;
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    const Sequence& sequence = sequences_.at(other);
    if (static_cast<int32_t>(other) == seq || sequence.tainted || sequence.lost || sequence.bypass ||
        sequence.variant != asker.variant || asker.variant == kNoVariant) {
      continue;
    }
    const uint32_t common = common_prefix(sequence.tokens, prompt);
    if (common > best) {
      best = common;
      donor = static_cast<int32_t>(other);
    }
  }
  return best;
}

uint32_t Connector::available(int32_t seq, std::span<const Token> prompt, uint32_t unit) {
  int32_t donor = -1;
  uint32_t tokens = std::max(sequences_.at(seq).rows(), live_tokens(seq, prompt, donor));
  const KeyspaceId keyspace = variants_.keyspace(sequences_.at(seq).variant);
  if (keyspace != KeyspaceId{}) {
    tokens = std::max(tokens, static_cast<uint32_t>(engine_.client.peek(keyspace, prompt)) / unit * unit);
  }
  return tokens;
}

void Connector::share_live(int32_t seq, std::span<const Token> prompt) {
  int32_t donor = -1;
  const uint32_t end = live_tokens(seq, prompt, donor);
  const uint32_t begin = sequences_.at(seq).rows();
  if (donor < 0 || end <= begin) return;
  engine_.api.memory_seq_cp(engine_.memory, donor, seq, static_cast<llama_pos>(begin), static_cast<llama_pos>(end));
  sequences_.share(donor, seq, end);
  engine_.counters.add(Counter::kTokensRestoredLive, end - begin);
}

Transfer::Outcome Connector::restore_stored(int32_t seq, std::span<const Token> prompt, uint32_t unit,
                                            uint32_t rows_in_all, bool what_fits) {
  const KeyspaceId keyspace = variants_.keyspace(sequences_.at(seq).variant);
  stopped_ = Reason::kNotCacheable;
  if (keyspace == KeyspaceId{}) return Transfer::Outcome::kDone;
  const auto restored = transfer_.restore(seq, keyspace, prompt, unit, rows_in_all, what_fits);
  stopped_ = restored.reason;
  if (restored.outcome == Transfer::Outcome::kBroken) {
    recover();
    sequences_.truncate(seq, 0);  // nothing of this request has been computed yet: it simply starts anew
    sequences_.at(seq).lost = false;
    stopped_ = Reason::kLoadFailed;
  }
  return restored.outcome;
}

// Counts a request's look-up once, at its final answer: `held` tokens are there now, `kept` of them were before.
void Connector::count(Sequence& sequence, size_t prompt_tokens, uint32_t kept, uint32_t held) {
  if (sequence.counted) return;
  sequence.counted = true;
  engine_.counters.add(Counter::kLookups);
  engine_.counters.add(Counter::kTokensLookedUp, prompt_tokens);
  engine_.counters.add(Counter::kTokensKept, kept);
  const bool all_but_one = held + 1 == prompt_tokens;
  const bool part_of_block = stopped_ == Reason::kFull || stopped_ == Reason::kPartialBlock;
  engine_.counters.add(stopped_counter(all_but_one ? Reason::kLastToken : part_of_block ? Reason::kPartialBlock : stopped_));
}

}  // namespace rhizome
