// Stores: through staging memory, which the node copies.
#include "client/attached_client.h"

#include "contract/check.h"
#include "slab/block_copy.h"

namespace rhizome {

// Room for the tokens and for as many of the blocks as there is; nothing: not even for one.
std::optional<AttachedClient::Written> AttachedClient::take_room(Use use, KnownKeyspace& keyspace,
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

Result<Draft> AttachedClient::reserve(KeyspaceId id, std::span<const Token> tokens, uint32_t first_block) {
  KnownKeyspace* const keyspace = known(id);
  const size_t blocks = tokens.size() / block_tokens_;
  if (keyspace == nullptr) return fail(Code::kInvalidArgument, "keyspace not opened");
  if (tokens.size() % block_tokens_ != 0 || first_block > blocks || blocks > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "not a whole number of blocks, or fewer than first_block");
  }
  Use now = attached();
  if (!now.session().is_alive()) return fail(Code::kUnavailable, "the node is gone");
  const auto stored = static_cast<uint32_t>(peek(id, tokens) / block_tokens_);
  if (stored < first_block) return fail(Code::kFailedPrecondition, "a block before is not stored");
  Draft draft;
  draft.first_block_ = stored;
  if (stored == blocks) return draft;
  std::optional<Written> written = take_room(std::move(now), *keyspace, tokens, stored);
  if (!written) return fail(Code::kResourceExhausted, "all of the staging memory is in use");
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

size_t AttachedClient::commit(Draft draft) {
  if (draft.client_ == nullptr) return 0;
  RHIZOME_CHECK(draft.client_ == this);
  draft.client_ = nullptr;
  draft.payloads_.clear();
  Written written;
  {
    const MutexLock lock(mutex_);
    const auto found = drafts_.find(draft.id_);
    RHIZOME_CHECK(found != drafts_.end());
    written = std::move(found->second);
    drafts_.erase(found);
  }
  const Result<OpenedKeyspace*> opened = open_at(*written.use.get(), *written.keyspace);
  if (!opened) return 0;
  const uint64_t offset = written.piece.offset();
  const CommitFrame question{.keyspace = (*opened)->number,
                             .tokens = {offset, written.tokens_count},
                             .first_block = written.first_block,
                             .blocks_count = written.blocks_count,
                             .payloads_offset = offset + written.payloads_offset};
  const Result<CommittedFrame> committed = written.use.session().ask<CommittedFrame>(question);
  return committed ? committed->visible_count : 0;
}

}  // namespace rhizome
