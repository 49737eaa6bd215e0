// Contexts that a client publishes, and adopts (node/contexts.h).
#include <algorithm>
#include <atomic>
#include <utility>

#include "index/index_reader.h"
#include "machine/clock.h"
#include "node/client_session.h"

namespace rhizome {
namespace {

// The deepest run of what the store has pinned of these tokens: what bytes_on_paths() goes by. 0: it is just being
// changed; then the blocks are not counted.
RunId deepest_run(const Store& store, Root root, std::span<const Token> tokens, size_t blocks) {
  const Result<IndexReader> index = IndexReader::open(store.shared().index.bytes());
  if (!index) return 0;
  std::vector<Location> locations(tokens.size() / store.block_tokens());
  HazardSlot nobodys{0};  // the prefix pins
  return index->lookup(store.shared_root(root), tokens.first(blocks * store.block_tokens()), locations, nobodys).run;
}

}  // namespace

Result<ClientSession::Answer> ClientSession::on(const PublishFrame& publish) {
  const Result<Root> root = open_root(publish.keyspace, publish.geometry);
  if (!root) return fail(root.error());
  Result<std::vector<Token>> tokens = copy_tokens(publish.tokens);
  if (!tokens) return fail(tokens.error());
  Contexts::Offer offer{.terms = publish.terms};
  domain_->store.lookup(*root, *tokens, offer.pins);
  const uint32_t blocks = offer.pins.blocks();
  if (blocks == 0) return fail(Code::kFailedPrecondition, "nothing of it is stored");
  // Those in memory stay there, as far as it pays the others come.
  static_cast<void>(domain_->store.promote(offer.pins, *tokens, 0, blocks));
  offer.run = deepest_run(domain_->store, *root, *tokens, blocks);
  offer.content = {
      .root = *root, .tokens = std::move(*tokens), .keyspace = publish.keyspace, .geometry = publish.geometry};
  const uint64_t now_ns = monotonic_now_ns();
  const Result<ContextHandle> handle = domain_->contexts.publish(number_, std::move(offer), now_ns);
  if (!handle) return fail(handle.error());
  if (kept_bytes(publish.terms.outlives_publisher) > domain_->pinned_bytes_max) {
    static_cast<void>(domain_->contexts.unpublish(*handle, now_ns));
    return fail(Code::kResourceExhausted, "it would keep more memory from others than one client may");
  }
  return Answer{PublishedFrame{*handle}};
}

Result<ClientSession::Answer> ClientSession::on(const AdoptFrame& adopt) {
  const auto adoption = domain_->contexts.begin_adoption(number_, adopt.handle, monotonic_now_ns());
  if (!adoption) return fail(adoption.error());
  const Contexts::Content& content = *adoption->content;
  const auto bytes = std::as_bytes(std::span(content.tokens));
  // Of its own for each adopter: nobody else can look at what one of them does with it.
  Result<Mapping> memory = Mapping::shareable(bytes.size());
  if (!memory) {
    static_cast<void>(domain_->contexts.end_adoption(number_, adoption->number, false));
    return fail(memory.error());
  }
  std::ranges::copy(bytes, memory->bytes().begin());
  Answer answer{ContextFrame{.adoption = adoption->number,
                             .keyspace = content.keyspace,
                             .geometry = content.geometry,
                             .tokens_count = static_cast<uint32_t>(content.tokens.size()),
                             .blocks_count = adoption->blocks},
                {memory->descriptor()}};
  answer.memory = std::move(*memory);
  return answer;
}

Result<ClientSession::Answer> ClientSession::on(const EndAdoptionFrame& end) {
  const Status ended = domain_->contexts.end_adoption(number_, end.adoption, end.keeps);
  if (!ended) return fail(ended.error());
  return Answer{ConfirmedFrame{}};
}

Result<ClientSession::Answer> ClientSession::on(const UnpublishFrame& unpublish) {
  const Status ended = domain_->contexts.unpublish(unpublish.handle, monotonic_now_ns());
  if (!ended) return fail(ended.error());
  return Answer{ConfirmedFrame{}};
}

}  // namespace rhizome
