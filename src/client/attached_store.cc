// Stores: through staging memory, which the node copies.
#include "client/attached_client.h"

#include "contract/check.h"
#include "machine/clock.h"
#include "slab/block_copy.h"

namespace rhizome {

// Room for the tokens and for as many of the blocks as there is; nothing: not even for one.
std::optional<AttachedClient::Written> AttachedClient::take_room(Use& use, KnownKeyspace& keyspace,
                                                                 std::span<const Token> tokens, uint32_t first_block) {
  const uint64_t payload_bytes = keyspace.slot_bytes - keyspace.identity_bytes;
  for (uint64_t blocks = tokens.size() / block_tokens_ - first_block; blocks > 0; blocks /= 2) {
    const uint64_t tokens_count = (first_block + blocks) * block_tokens_;
    const uint64_t payloads_at = (tokens_count * sizeof(Token) + StagingArea::kAlignment - 1) /
                                 StagingArea::kAlignment * StagingArea::kAlignment;
    std::optional<StagingPiece> piece = use.session().staging().take(payloads_at + blocks * payload_bytes);
    if (!piece) continue;
    copy_block_bytes(piece->bytes().first(tokens_count * sizeof(Token)), std::as_bytes(tokens.first(tokens_count)));
    Written written;
    written.use = std::move(use);
    written.piece = std::move(*piece);
    written.keyspace = &keyspace;
    written.first_block = first_block;
    written.blocks_count = static_cast<uint32_t>(blocks);
    written.payloads_offset = payloads_at;
    written.tokens_count = static_cast<uint32_t>(tokens_count);
    return written;
  }
  return std::nullopt;
}

// What is under way gives its room back by and by.
Result<AttachedClient::Written> AttachedClient::await_room(Use use, KnownKeyspace& keyspace,
                                                           std::span<const Token> tokens, uint32_t first_block) {
  const uint64_t deadline_ns = monotonic_now_ns() + options_.reply_wait_ns;
  for (bool may_come = true;;) {
    if (!use.session().is_alive()) return fail(Code::kUnavailable, "the node is gone");
    std::optional<Written> written = take_room(use, keyspace, tokens, first_block);
    if (written) return std::move(*written);
    if (!may_come) return fail(Code::kResourceExhausted, "all of the staging memory is in use");
    may_come = use.get()->commits.wait_for_one() && monotonic_now_ns() < deadline_ns;
  }
}

Result<Draft> AttachedClient::reserve(KeyspaceId id, std::span<const Token> tokens, uint32_t first_block) {
  KnownKeyspace* const keyspace = known(id);
  const size_t blocks = tokens.size() / block_tokens_;
  if (keyspace == nullptr) return fail(Code::kInvalidArgument, "keyspace not opened");
  if (tokens.size() % block_tokens_ != 0 || first_block > blocks || blocks > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "not a whole number of blocks, or fewer than first_block");
  }
  Use now = attached();
  if (!now.session().is_alive()) return fail(Code::kUnavailable, "the node is gone");
  CommitsUnderWay& commits = now.get()->commits;
  commits.take_in();
  // Before the look: what ends in between is in both. If it has failed, the node refuses what continues it.
  const std::vector<CommitsUnderWay::Part> under_way = commits.parts_of(keyspace->number, tokens);
  auto stored = static_cast<uint32_t>(peek(id, tokens) / block_tokens_);
  for (const CommitsUnderWay::Part& part : under_way) {
    if (part.first <= stored) stored = std::max(stored, part.end);
  }
  if (stored < first_block) return fail(Code::kFailedPrecondition, "a block before is not stored");
  Draft draft;
  draft.first_block_ = stored;
  if (stored == blocks) return draft;
  Result<Written> written = await_room(std::move(now), *keyspace, tokens, stored);
  if (!written) return fail(written.error());
  const uint64_t payload_bytes = keyspace->slot_bytes - keyspace->identity_bytes;
  for (uint64_t i = 0; i < written->blocks_count; ++i) {
    draft.payloads_.push_back(
        written->piece.bytes().subspan(written->payloads_offset + i * payload_bytes, payload_bytes));
  }
  draft.client_ = this;
  const MutexLock lock(mutex_);
  draft.id_ = ++last_draft_;
  drafts_.emplace(draft.id_, std::move(*written));
  return draft;
}

std::optional<AttachedClient::Written> AttachedClient::take_draft(Draft& draft) {
  if (draft.client_ == nullptr) return std::nullopt;
  RHIZOME_CHECK(draft.client_ == this);
  draft.client_ = nullptr;
  draft.payloads_.clear();
  const MutexLock lock(mutex_);
  const auto found = drafts_.find(draft.id_);
  RHIZOME_CHECK(found != drafts_.end());
  std::optional<Written> written = std::move(found->second);
  drafts_.erase(found);
  return written;
}

std::optional<size_t> AttachedClient::hand_over(Written& written, CommitsUnderWay::Outcome* outcome) {
  AttachedSession& session = written.use.session();
  CommitsUnderWay& commits = written.use.get()->commits;
  const Result<OpenedKeyspace*> opened = open_at(*written.use.get(), *written.keyspace);
  if (!opened) return 0;
  const uint64_t offset = written.piece.offset();
  const CommitFrame question{.keyspace = (*opened)->number,
                             .tokens = {offset, written.tokens_count},
                             .first_block = written.first_block,
                             .blocks_count = written.blocks_count,
                             .payloads_offset = offset + written.payloads_offset};
  if (commits.is_served()) {
    CommitsUnderWay::Staged staged{.piece = std::move(written.piece),
                                   .keyspace = written.keyspace->number,
                                   .tokens_count = written.tokens_count,
                                   .first_block = written.first_block,
                                   .payload_bytes = written.keyspace->slot_bytes - written.keyspace->identity_bytes};
    if (!commits.push(question, std::move(staged), outcome)) return 0;
    return std::nullopt;
  }
  const Result<CommittedFrame> committed = session.ask<CommittedFrame>(question);
  if (committed) return committed->visible_count;
  if (!session.is_alive()) commits.keep(std::move(written.piece));
  return 0;
}

size_t AttachedClient::commit(Draft draft) {
  std::optional<Written> written = take_draft(draft);
  if (!written) return 0;
  CommitsUnderWay::Outcome outcome;
  const std::optional<size_t> ended = hand_over(*written, &outcome);
  return ended ? *ended : written->use.get()->commits.await(outcome);
}

void AttachedClient::commit_later(Draft draft) {
  std::optional<Written> written = take_draft(draft);
  if (!written) return;
  const KnownKeyspace& keyspace = *written->keyspace;
  const std::optional<size_t> ended = hand_over(*written, nullptr);
  if (ended) visible_later_.add(*ended, keyspace.slot_bytes - keyspace.identity_bytes);
}

Settled AttachedClient::settle() {
  current().get()->commits.wait_for_all();
  return visible_later_.take();
}

}  // namespace rhizome
