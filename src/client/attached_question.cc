// What the node is asked and told besides: why, and who computes what.
#include "client/attached_client.h"

#include "machine/clock.h"
#include "slab/block_copy.h"

namespace rhizome {
namespace {

// How long to sleep for blocks that somebody computes, of a node that may have been killed.
constexpr uint64_t kLookAgainWaitingNs = 250'000'000;

}  // namespace

Reason AttachedClient::explain(KeyspaceId id, std::span<const Token> prompt) {
  const KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr) return Reason::kNotCacheable;
  const Use now = attached();
  // Also what is behind the last whole block: that may be the reason.
  std::optional<StagingPiece> piece;
  if (!prompt.empty()) piece = now.session().staging().take(prompt.size_bytes());
  if (!prompt.empty() && !piece) return Reason::kQuota;
  if (piece) copy_block_bytes(piece->bytes(), std::as_bytes(prompt));
  const Result<OpenedKeyspace*> opened = open_at(*now.get(), *keyspace);
  if (!opened) return Reason::kOff;
  const StagedTokens tokens{piece ? piece->offset() : 0, static_cast<uint32_t>(prompt.size())};
  const Result<ExplainedFrame> explained = now.session().ask<ExplainedFrame>(ExplainFrame{(*opened)->number, tokens});
  return explained ? explained->reason : Reason::kOff;
}

// It is lost rather than waited for.
void AttachedClient::observe_compute(uint64_t tokens, uint64_t before, double seconds) {
  if (tokens > UINT32_MAX || before > UINT32_MAX || !(seconds > 0 && seconds < 1e6)) return;
  current().session().tell(
      ObserveFrame{static_cast<uint32_t>(tokens), static_cast<uint32_t>(before), static_cast<uint64_t>(seconds * 1e9)},
      0);
}

// --- what is being computed

Announcement AttachedClient::announce(KeyspaceId id, std::span<const Token> prompt, size_t first, size_t end,
                                      uint64_t patience_ns) {
  Announcement announcement;
  const KnownKeyspace* const keyspace = known(id);
  end = std::min(end, prompt.size() / block_tokens_);
  if (keyspace == nullptr || first >= end || end > UINT32_MAX) return announcement;
  const Use now = attached();
  const Result<NamedBlocks> named = name_blocks(*now.get(), *keyspace, prompt, first, end);
  if (!named) return announcement;
  const Result<ClaimedFrame> claimed = now.session().ask<ClaimedFrame>(AnnounceFrame{named->blocks, patience_ns});
  if (!claimed) return announcement;
  announcement.end_block_ = std::min<size_t>(claimed->end, end);
  if (claimed->claim == 0) return announcement;
  announcement.client_ = this;
  announcement.claim_ = claimed->claim;
  announcement.session_ = now.get()->number;
  return announcement;
}

// A claim ends with its session. Those who wait for it look once it has ended: what was handed over before must be
// there.
void AttachedClient::withdraw_claim(uint64_t claim, uint64_t session) {
  const Use now = current();
  if (now.get()->number != session) return;
  now.get()->commits.wait_for_all();
  now.session().tell(WithdrawFrame{claim}, now.session().reply_wait_ns());
}

Arrival AttachedClient::wait(KeyspaceId id, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) {
  Arrival arrival;
  const KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr || more_than >= prompt.size() / block_tokens_) {
    arrival.blocks = peek(id, prompt) / block_tokens_;
    return arrival;
  }
  const Use now = current();
  AttachedSession& session = now.session();
  Result<NamedBlocks> named = fail(Code::kUnknown, "");
  for (;;) {
    // Before the look and the question: what changes behind them is not slept through.
    const uint32_t noted = session.notice().stirrings();
    arrival = {.blocks = peek(id, prompt) / block_tokens_};
    if (arrival.blocks > more_than) return arrival;
    if (!named) named = name_blocks(*now.get(), *keyspace, prompt, more_than, more_than + 1);
    if (!named) return arrival;
    const Result<WaitedFrame> waited = session.ask<WaitedFrame>(WaitFrame{named->blocks, deadline_ns});
    if (!waited || waited->why == WaitOutcome::kNobody) return arrival;
    if (waited->why == WaitOutcome::kMoreBlocks) {
      // The node has seen more; this client may look at a run that is just being changed.
      arrival.blocks = std::max<size_t>(waited->end, peek(id, prompt) / block_tokens_);
      return arrival;
    }
    arrival.is_computed = true;
    const uint64_t now_ns = monotonic_now_ns();
    if (now_ns >= deadline_ns) return arrival;
    session.notice().sleep_until_stirred(noted,
                                         std::min({deadline_ns, waited->until_ns, now_ns + kLookAgainWaitingNs}));
  }
}

}  // namespace rhizome
