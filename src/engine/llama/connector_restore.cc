// The hook: what a request already has, what it may wait for, what is put in place of computing it.
#include <algorithm>

#include "client/stopped.h"
#include "engine/llama/connector.h"
#include "engine/llama/hook_time.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Waiting costs a round of batches: not for less than this.
constexpr uint32_t kWorthWaitingTokens = 8;

}  // namespace

int32_t Connector::restore(int32_t seq, std::span<const Token> prompt, int32_t have, std::string_view salt,
                           uint32_t flags) {
  MutexLock lock(mutex_);
  const HookTime time(engine_, Counter::kHookTime);
  const std::vector<int32_t> idle = take_idle(seq);
  const bool bypass = (flags & kBypass) != 0;
  if (!sequences_.contains(seq) || have < 0) return have;
  salted_ = salted_ || !salt.empty();
  if (!bypass && prompt.size() <= static_cast<size_t>(have)) return have;
  Request request{seq, prompt, static_cast<uint32_t>(have), std::string(salt), kNoVariant, bypass, flags};
  if (!bypass) request.variant = variants_.now(request.salt);
  // Before anything is changed: the caller believes in its rows until it gets another answer than "ask again".
  if (must_wait(request)) {
    engine_.counters.add(Counter::kWaits);
    log_debug("sequence {}: prompt of {} waits for another one", seq, prompt.size());
    return kAskAgain;
  }
  host_flight_.settle();
  if (must_wait_for_host(request)) return kAskAgain;
  const auto settled_answer = [&]() REQUIRES(mutex_) {
    return settle(request) ? answer(request) : static_cast<int32_t>(request.have);
  };
  const int32_t held = settled_answer();
  const bool room = park(idle);
  return room && held == kNoCells ? settled_answer() : held;
}

// Whether the rows of the sequence were made for a request with other wishes.
bool Connector::foreign(const Request& request) const {
  const Sequence& sequence = sequences_.at(request.seq);
  const bool occupied = sequence.tainted || sequence.accepted() > 0;
  // Rows that came from outside may have been saved under any salt, if there are salts.
  const bool anybodys = sequence.replaced && salted_;
  return occupied && (sequence.salt != request.salt || sequence.bypass != request.bypass || anybodys);
}

// The chunk of a prompt that goes on as it was answered before.
bool Connector::continues(const Request& request) const {
  const Sequence& sequence = sequences_.at(request.seq);
  return sequence.counted && sequence.in_prompt && request.have == sequence.accepted() && !foreign(request) &&
         std::equal(request.prompt.begin(), request.prompt.end(), sequence.prompt.begin(), sequence.prompt.end());
}

// What of the prompt may be restored or shared: one token is always left to compute.
std::span<const Token> Connector::restorable(const Request& request) const {
  const uint32_t unit = engine_.facts.plan.unified ? 1 : stream_unit();
  return request.prompt.first((request.prompt.size() - 1) / unit * unit);
}

uint32_t Connector::stream_unit() const {
  return exact() ? kExactUnit : engine_.facts.block_tokens;
}

// How many of the sequence's own rows stay.
uint32_t Connector::usable_rows(const Request& request) {
  const Sequence& sequence = sequences_.at(request.seq);
  // Rows that a window has passed before they could be stored would keep the prefix out of the store for as long as
  // the engine keeps them: computing them once more is cheaper.
  const bool passed = sequence.unstorable && variants_.keyspace(request.variant) != KeyspaceId{};
  if (foreign(request) || sequence.tainted || sequence.lost || passed || sequence.variant != request.variant) return 0;
  const uint32_t common = common_prefix(sequence.tokens, restorable(request));
  // In exact mode only rows computed in whole units may stay: the others depend on how they were batched.
  if (exact()) return std::min(sequence.exact_rows, common) / kExactUnit * kExactUnit;
  // A window may have passed what a shorter prompt needs: only the caller knows how far it looked back.
  if (engine_.facts.shape.window > 0) return std::min(request.have, sequence.rows());
  return common;  // also rows beyond what the caller counts on
}

// Nothing is looked up for it.
bool Connector::is_untouched(const Request& request) const {
  const Sequence& sequence = sequences_.at(request.seq);
  return request.bypass || (request.flags & kAdaptersPending) != 0 || !options_.restore ||
         (sequence.tainted && request.have > 0 && !foreign(request));
}

uint32_t Connector::whole_unit() const {
  return !engine_.facts.plan.unified || engine_.facts.shape.window > 0 ? stream_unit() : 1;
}

// How many tokens the request can have without anybody computing.
uint32_t Connector::available_tokens(const Request& request) {
  const auto prompt = restorable(request);
  uint32_t available = usable_rows(request);
  int32_t donor = -1;
  available = std::max(available, live_tokens(request.seq, prompt, request.variant, donor));
  if (const KeyspaceId keyspace = variants_.keyspace(request.variant); keyspace != KeyspaceId{}) {
    const uint32_t unit = whole_unit();
    available = std::max(available, static_cast<uint32_t>(engine_.client.peek(keyspace, prompt)) / unit * unit);
  }
  return available;
}

bool Connector::must_wait(const Request& request) {
  if (is_untouched(request) || (exact() && continues(request))) return false;
  return flight_.should_wait(request.seq, restorable(request), request.variant, available_tokens(request), whole_unit(),
                             exact() ? 0 : kWorthWaitingTokens);
}

// Whether to ask again, because another process computes what the request wants. Sleeps when this one has nothing else
// to do.
bool Connector::must_wait_for_host(const Request& request) {
  if (!host_flight_.is_on() || is_untouched(request) || (exact() && continues(request))) return false;
  const KeyspaceId keyspace = variants_.keyspace(request.variant);
  const auto prompt = restorable(request);
  const auto turn = host_flight_.take(request.seq, keyspace, prompt, available_tokens(request));
  if (turn == HostFlight::Turn::kCompute) return false;
  engine_.counters.add(Counter::kWaits);
  if (host_flight_.may_ask_again(request.seq)) return true;
  host_flight_.await_others(request.seq, keyspace, prompt);
  return false;
}

// Brings the shadow and the caller's view of the sequence together. False: leave the sequence alone.
bool Connector::settle(Request& request) {
  const int32_t seq = request.seq;
  Sequence& sequence = sequences_.at(seq);
  if (request.have <= sequence.untold) request.have = std::min(request.have, sequence.accepted());
  sequence.untold = 0;
  if (foreign(request) || (sequence.tainted && request.have == 0) || sequence.lost) {
    forget(seq);
    request.have = 0;
  }
  sequence.salt = request.salt;
  sequence.bypass = request.bypass;
  // A prompt with media has no tokens to tell; that it must not be stored is all there is to know.
  if (sequence.tainted || request.prompt.size() <= request.have) return false;
  const bool same_prompt =
      std::equal(request.prompt.begin(), request.prompt.end(), sequence.prompt.begin(), sequence.prompt.end());
  if (!sequence.in_prompt || !same_prompt) {
    sequence.prompt.assign(request.prompt.begin(), request.prompt.end());
    sequence.in_prompt = true;
    sequence.counted = false;
  }
  const uint32_t have = request.have;
  const uint32_t from_rows = std::min(have, sequence.rows());
  const bool same =
      have <= sequence.accepted() && common_prefix(sequence.tokens, request.prompt) >= from_rows &&
      std::equal(request.prompt.begin() + from_rows, request.prompt.begin() + have, sequence.held.begin());
  if (same) return true;
  taint(seq);  // the caller knows rows that we do not
  return false;
}

int32_t Connector::answer(const Request& request) {
  const int32_t seq = request.seq;
  Sequence& sequence = sequences_.at(seq);
  sequence.hooked = (request.flags & kAdaptersPending) == 0;
  const auto size = static_cast<uint32_t>(request.prompt.size());
  if (request.bypass || !sequence.hooked) {
    if (request.bypass && !sequence.counted) engine_.counters.add(Counter::kBypassed);
    stopped_ = Reason::kBypass;
    if (request.bypass) count(sequence, size, request.have, request.have);
    if (request.have < sequence.rows()) {
      drop_rows(seq, request.have);
    } else {
      sequence.held.resize(request.have - sequence.rows());  // of a prompt that comes in several chunks
    }
    return static_cast<int32_t>(request.have);
  }
  const bool again = continues(request);
  if (again && (exact() || !options_.restore)) {
    flight_.claim(seq);
    return static_cast<int32_t>(request.have);
  }
  uint32_t own = options_.restore ? usable_rows(request) : 0;
  const uint32_t parked = sequence.parked;
  if (parked > 0 && !use_parked(request, own)) return kNoCells;
  const uint32_t back = std::min(parked, own);
  const uint32_t kept = std::max(std::min(request.have, own), back) - back;
  drop_rows(seq, own);
  sequence.unstorable = sequence.unstorable && own > 0;
  sequence.variant = request.variant;
  stopped_ = Reason::kOff;
  if (options_.restore) {
    const auto prompt = restorable(request);
    const bool unified = engine_.facts.plan.unified;
    share_live(seq, prompt);
    const bool what_fits = !unified || (request.flags & kWhatFits) != 0;
    const auto outcome =
        restore_stored(seq, prompt, unified ? engine_.facts.block_tokens : stream_unit(), size, what_fits);
    if (outcome == Transfer::Outcome::kNoCells) {
      sequence.untold = request.have;
      return kNoCells;
    }
    if (exact()) sequence.exact_rows = sequence.rows();
  }
  count(sequence, size, kept, sequence.rows());
  log_debug("sequence {}: prompt of {}, {} kept, {} now: {}", seq, size, kept, sequence.rows(), reason_name(stopped_));
  flight_.claim(seq);
  return static_cast<int32_t>(sequence.rows());
}

uint32_t Connector::live_tokens(int32_t seq, std::span<const Token> prompt, VariantId variant, int32_t& donor) const {
  // The window of a live sequence may have passed the rows that a shorter prefix needs, and cells that two
  // sequences share are never used again by the engine: windowed rows come from the store only.
  if (!engine_.facts.plan.unified || engine_.facts.shape.window > 0 || variant == kNoVariant) return 0;
  uint32_t best = 0;
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    const Sequence& sequence = sequences_.at(other);
    if (static_cast<int32_t>(other) == seq || sequence.tainted || sequence.lost || sequence.bypass ||
        sequence.parked > 0 || sequence.variant != variant) {
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

void Connector::share_live(int32_t seq, std::span<const Token> prompt) {
  int32_t donor = -1;
  const uint32_t end = live_tokens(seq, prompt, sequences_.at(seq).variant, donor);
  const uint32_t begin = sequences_.at(seq).rows();
  if (donor < 0 || end <= begin) return;
  engine_.api.memory_seq_cp(engine_.memory, donor, seq, static_cast<llama_pos>(begin), static_cast<llama_pos>(end));
  sequences_.share(donor, seq, end);
  engine_.counters.add(Counter::kTokensRestoredLive, end - begin);
}

// Restored rows would be overwritten by a copy that is still to come. Only a forward pass makes the engine do it: of
// one row, behind those of the sequence, which goes again.
bool Connector::finish_copies(int32_t seq) {
  if (!engine_.copy_pending()) return true;
  const auto position = static_cast<llama_pos>(sequences_.at(seq).rows());
  const Row row{0, position, seq, false, 0};
  const int32_t status = engine_.rebuild(std::span(&row, 1));
  engine_.api.memory_seq_rm(engine_.memory, seq, position, -1);
  return status == 0;
}

Transfer::Outcome Connector::restore_stored(int32_t seq, std::span<const Token> prompt, uint32_t unit,
                                            uint32_t rows_in_all, bool what_fits) {
  const KeyspaceId keyspace = variants_.keyspace(sequences_.at(seq).variant);
  stopped_ = Reason::kNotCacheable;
  if (keyspace == KeyspaceId{}) return Transfer::Outcome::kDone;
  stopped_ = Reason::kLoadFailed;
  if (!finish_copies(seq)) return Transfer::Outcome::kDone;
  const auto restored = transfer_.restore(seq, keyspace, prompt, unit, rows_in_all, what_fits);
  stopped_ = restored.reason;
  if (restored.outcome == Transfer::Outcome::kBroken) {
    recover();
    sequences_.empty(seq);  // nothing of this request has been computed yet: it simply starts anew
    stopped_ = Reason::kLoadFailed;
  }
  return restored.outcome;
}

// Counts a request's look-up once, at its final answer: `held` tokens are there now, `kept` of them were before.
void Connector::count(Sequence& sequence, size_t prompt_tokens, uint32_t kept, uint32_t held) {
  if (sequence.counted) return;
  sequence.counted = true;
  engine_.counters.add(Counter::kLookups);
  if (held > 0) engine_.counters.add(Counter::kLookupsHit);
  engine_.counters.add(Counter::kTokensLookedUp, prompt_tokens);
  engine_.counters.add(Counter::kTokensKept, kept);
  const bool all_but_one = held + 1 == prompt_tokens;
  const bool part_of_block = stopped_ == Reason::kFull || stopped_ == Reason::kPartialBlock;
  engine_.counters.add(stopped_counter(all_but_one     ? Reason::kLastToken
                                       : part_of_block ? Reason::kPartialBlock
                                                       : stopped_));
}

}  // namespace rhizome
