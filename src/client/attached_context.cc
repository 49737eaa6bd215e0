// Contexts that are handed over from one client of a node to another one.
#include "client/attached_client.h"

#include "codec/geometry_record.h"
#include "slab/block_copy.h"

namespace rhizome {
namespace {

// A look-up beside somebody who stores may end early; what the node pins is there the next time.
constexpr int kLooksMax = 16;

}  // namespace

Result<ContextHandle> AttachedClient::publish(KeyspaceId id, std::span<const Token> prompt, const ContextTerms& terms) {
  const KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr) return fail(Code::kInvalidArgument, "keyspace not opened");
  if (prompt.size() < block_tokens_) return fail(Code::kFailedPrecondition, "nothing of it is stored");
  if (prompt.size() > UINT32_MAX) return fail(Code::kInvalidArgument, "more tokens than a prompt may have");
  const Use now = attached();
  if (!now.session().is_alive()) return fail(Code::kUnavailable, "the node is gone");
  std::optional<StagingPiece> piece = now.session().staging().take(prompt.size_bytes());
  if (!piece) return fail(Code::kResourceExhausted, "all of the staging memory is in use");
  copy_block_bytes(piece->bytes(), std::as_bytes(prompt));
  const auto geometry = encode_geometry(keyspace->geometry);
  const auto encoding = keyspace->keyspace.encoding();
  const PublishFrame question{.keyspace = {encoding.begin(), encoding.end()},
                              .geometry = {geometry.begin(), geometry.end()},
                              .tokens = {piece->offset(), static_cast<uint32_t>(prompt.size())},
                              .terms = terms};
  const Result<PublishedFrame> published = now.session().ask<PublishedFrame>(question);
  if (!published) return fail(published.error());
  return published->handle;
}

Result<Context> AttachedClient::take_over(const Use& now, const ContextFrame& given,
                                          const std::vector<Descriptor>& descriptors) {
  const Result<Keyspace> keyspace = Keyspace::decode(given.keyspace);
  if (!keyspace) return fail(keyspace.error());
  const Result<BlockGeometry> geometry = decode_geometry(given.geometry);
  if (!geometry) return fail(geometry.error());
  if (descriptors.size() != 1) return fail(Code::kInvalidArgument, "memory without its descriptor");
  const Result<Mapping> memory =
      Mapping::attach_shared(descriptors.front(), uint64_t{given.tokens_count} * sizeof(Token), Mapping::Access::kRead);
  if (!memory) return fail(memory.error());
  const Result<KeyspaceId> id = open(*keyspace, *geometry);
  if (!id) return fail(id.error());
  Context context{.keyspace = *id, .payload_bytes = geometry->raw_bytes()};
  const auto* const first = reinterpret_cast<const Token*>(memory->bytes().data());
  context.tokens.assign(first, first + given.tokens_count);
  for (int looks = 0; looks < kLooksMax; ++looks) {
    lookup(*id, context.tokens, context.hit);
    if (context.hit.reason() == Reason::kQuota) return fail(Code::kResourceExhausted, "all hazard slots are in use");
    if (context.hit.blocks_count() >= given.blocks_count) break;
  }
  // The pins are that session's alone.
  const AttachedHit* const state = state_of(context.hit);
  if (state == nullptr || state->use.get() != now.get()) return fail(Code::kUnavailable, "the node is gone");
  if (context.hit.blocks_count() < given.blocks_count) context.hit.reason_ = explain(*id, context.tokens);
  return context;
}

Result<Context> AttachedClient::adopt(const ContextHandle& handle) {
  const Use now = attached();
  AttachedSession& session = now.session();
  std::vector<Descriptor> descriptors;
  const Result<ContextFrame> given = session.ask<ContextFrame>(AdoptFrame{handle}, &descriptors);
  if (!given) return fail(given.error());
  Result<Context> context = take_over(now, *given, descriptors);
  const bool keeps = context.has_value();
  // Without the answer nobody can say whose it is: then it is not ours.
  const Result<ConfirmedFrame> done =
      session.ask<ConfirmedFrame>(EndAdoptionFrame{.adoption = given->adoption, .keeps = keeps});
  if (keeps && !done) return fail(done.error());
  return context;
}

Status AttachedClient::unpublish(const ContextHandle& handle) {
  const Use now = attached();
  const Result<ConfirmedFrame> done = now.session().ask<ConfirmedFrame>(UnpublishFrame{handle});
  if (!done) return fail(done.error());
  return {};
}

}  // namespace rhizome
