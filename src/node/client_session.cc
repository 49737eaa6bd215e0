#include "node/client_session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "attach/shared_page.h"
#include "codec/geometry_record.h"
#include "machine/clock.h"
#include "node/stats_text.h"

namespace rhizome {
namespace {

// A prompt may be so long: four million tokens in blocks of sixteen are far more than any engine takes.
constexpr uint32_t kTokensMax = 1 << 22;
// Ten seconds for a token: a large model on a slow machine takes less.
constexpr uint64_t kTokenNsMax = 10'000'000'000;

}  // namespace

ClientSession::ClientSession(const NodeDomains& domains, LocalSocket socket, ProcessWatch watch, uint64_t number,
                             std::function<void()> on_broken)
    : domains_(domains),
      socket_(std::move(socket)),
      watch_(std::move(watch)),
      number_(number),
      on_broken_(std::move(on_broken)),
      began_ns_(monotonic_now_ns()),
      room_(kMessageBytesMax) {}

ClientSession::~ClientSession() {
  ring_.reset();  // its thread uses what is here
  if (lease_.empty()) return;
  {
    // Behind it nobody stirs this client any more.
    const MutexLock lock(domain_->flights_mutex);
    domain_->flights.leave(number_);
  }
  domain_->contexts.leave(number_);
  // A client that lives on must not believe what it reads from now on.
  notice_.front().revoke();
  notice_.front().stir();
  domain_->readers.remove(lease_.front());
  domain_->counters.sub(Counter::kMemoryRetired, retired_bytes_);
  if (is_welcomed_) domain_->counters.sub(Counter::kClientsAttached);
}

Status ClientSession::serve_one() {
  Result<ReceivedMessage> message = socket_.receive(room_, 0);
  if (!message) return message.error().code == Code::kDeadlineExceeded ? Status() : fail(message.error());
  if (message->has_ended) return fail(Code::kUnavailable, "the client has gone");
  const std::span<const std::byte> bytes(room_.data(), message->bytes);
  const Result<FrameHead> head = decode_frame_head(bytes);
  if (!head) return fail(head.error());
  const FrameDescriptors wanted = frame_descriptors(head->kind);
  const size_t descriptors = message->descriptors.size();
  if (frame_sender(head->kind) == FrameSender::kNode || descriptors < wanted.least || descriptors > wanted.most) {
    return fail(Code::kInvalidArgument, "not a message that a client sends");
  }
  const Result<AnyFrame> frame = decode_frame(bytes);
  if (!frame) return fail(frame.error());
  if (std::holds_alternative<GoodbyeFrame>(*frame)) return fail(Code::kCancelled, "goodbye");
  if (is_welcomed_ == std::holds_alternative<HelloFrame>(*frame)) {
    return fail(Code::kFailedPrecondition, "hello is the first message, and comes once");
  }
  if (take_unanswered(*frame)) return {};
  const Result<Answer> answered = answer(*frame, std::move(message->descriptors));
  if (answered) return send(answered->frame, head->request, answered->descriptors);
  const Status sent = send(error_frame(answered.error()), head->request, {});
  // Without a welcome there is nothing to go on with.
  return is_welcomed_ ? sent : fail(answered.error());
}

Status ClientSession::send(const AnyFrame& frame, uint64_t request, std::span<const int> descriptors) {
  const Result<std::vector<std::byte>> message = encode_frame(frame, request);
  if (!message) return fail(message.error());
  // Who asks and does not read the answers is not waited for.
  return socket_.send(*message, 0, descriptors);
}

bool ClientSession::take_unanswered(const AnyFrame& frame) {
  if (const auto* const withdraw = std::get_if<WithdrawFrame>(&frame)) {
    const MutexLock lock(domain_->flights_mutex);
    domain_->flights.withdraw(number_, withdraw->claim);
    return true;
  }
  const auto* const observe = std::get_if<ObserveFrame>(&frame);
  if (observe == nullptr) return false;
  // What no engine takes says nothing about any.
  const uint64_t tokens = observe->tokens_count;
  if (tokens > 0 && tokens <= kTokensMax && observe->before_count <= kTokensMax && observe->duration_ns > 0 &&
      observe->duration_ns <= tokens * kTokenNsMax) {
    domain_->store.observe_compute(tokens, observe->before_count, static_cast<double>(observe->duration_ns) * 1e-9);
  }
  return true;
}

Result<ClientSession::Answer> ClientSession::answer(const AnyFrame& frame, std::vector<Descriptor> descriptors) {
  if (const auto* const hello = std::get_if<HelloFrame>(&frame)) return on(*hello, std::move(descriptors));
  if (const auto* const open = std::get_if<OpenFrame>(&frame)) return on(*open);
  if (const auto* const root = std::get_if<AskRootFrame>(&frame)) return on(*root);
  if (const auto* const chunk = std::get_if<AskChunkFrame>(&frame)) return on(*chunk);
  if (const auto* const directory = std::get_if<AskDirectoryFrame>(&frame)) return on(*directory);
  if (const auto* const staged = std::get_if<CommitFrame>(&frame)) {
    const Result<CommittedFrame> committed = commit(*staged, nullptr);
    if (!committed) return fail(committed.error());
    return Answer{*committed};
  }
  if (const auto* const load = std::get_if<LoadFrame>(&frame)) return on(*load);
  if (const auto* const announce = std::get_if<AnnounceFrame>(&frame)) return on(*announce);
  if (const auto* const wait = std::get_if<WaitFrame>(&frame)) return on(*wait);
  if (const auto* const explain = std::get_if<ExplainFrame>(&frame)) return on(*explain);
  if (const auto* const report = std::get_if<ReportFrame>(&frame)) return on(*report);
  if (std::holds_alternative<AskStatsFrame>(frame)) {
    return Answer{StatsFrame{.text = stats_text(domain_->store, domain_->counters, domain_->tenant)}};
  }
  if (const auto* const clear = std::get_if<ClearFrame>(&frame)) return on(*clear);
  if (const auto* const publish = std::get_if<PublishFrame>(&frame)) return on(*publish);
  if (const auto* const adopt = std::get_if<AdoptFrame>(&frame)) return on(*adopt);
  if (const auto* const end = std::get_if<EndAdoptionFrame>(&frame)) return on(*end);
  if (const auto* const unpublish = std::get_if<UnpublishFrame>(&frame)) return on(*unpublish);
  return fail(Code::kUnimplemented, "this node does not know that request");
}

Result<ClientSession::Answer> ClientSession::on(const HelloFrame& hello, std::vector<Descriptor> descriptors) {
  if (hello.protocol_version != kProtocolVersion) return fail(Code::kFailedPrecondition, "another protocol version");
  const auto domain = std::ranges::find(domains_, hello.tenant, [](const auto& of) { return of->tenant; });
  if (domain == domains_.end()) return fail(Code::kPermissionDenied, "this node serves no such tenant");
  // All that the session reaches from now on is this tenant's.
  domain_ = domain->get();
  const uint32_t block_tokens = domain_->store.block_tokens();
  if (hello.block_tokens != 0 && hello.block_tokens != block_tokens) {
    return fail(Code::kFailedPrecondition, "this node's blocks have another number of tokens");
  }
  if (descriptors.empty() != (hello.staging_bytes == 0)) {
    return fail(Code::kInvalidArgument, "staging memory without its size, or the other way round");
  }
  if (hello.staging_bytes > domain_->staging_bytes_max) {
    return fail(Code::kInvalidArgument, "more staging memory than this node maps");
  }
  if (!descriptors.empty()) {
    Result<Mapping> staging =
        Mapping::attach_shared(descriptors.front(), hello.staging_bytes, Mapping::Access::kReadWritable);
    if (!staging) return fail(staging.error());
    staging_memory_ = std::move(*staging);
    staging_ = StagingView(staging_memory_.bytes());
  }
  Result<Mapping> lease = Mapping::shareable(kSharedPageBytes, Mapping::Sharing::kWritable);
  if (!lease) return fail(lease.error());
  Result<Mapping> notice = Mapping::shareable(kSharedPageBytes);
  if (!notice) return fail(notice.error());
  lease_memory_ = std::move(*lease);
  notice_memory_ = std::move(*notice);
  lease_.emplace_back(lease_memory_.bytes());
  notice_.emplace_back(notice_memory_.bytes(), domain_->incarnation);
  domain_->readers.add(lease_.front());
  {
    const MutexLock lock(domain_->flights_mutex);
    domain_->flights.enter(number_, [this] { notice_.front().stir(); });
  }
  is_welcomed_ = true;
  domain_->counters.add(Counter::kClientsAttached);
  // To close what a client sends may take as long as it likes, and nothing more is to come.
  static_cast<void>(socket_.refuse_descriptors());
  Answer welcome{WelcomeFrame{.block_tokens = block_tokens,
                              .incarnation = domain_->incarnation,
                              .session = number_,
                              .budget_bytes = domain_->budget_bytes,
                              .comes_back = domain_->comes_back ? 1u : 0u},
                 {lease_memory_.descriptor(), notice_memory_.descriptor()}};
  add_ring(welcome);
  return welcome;
}

// Without one the client commits over the socket.
void ClientSession::add_ring(Answer& welcome) {
  if (staging_memory_.bytes().empty() || !domain_->takes_commits_by_ring) return;
  const auto perform = [this](const CommitFrame& staged, const CommitRing& own) { return commit(staged, &own); };
  Result<std::unique_ptr<CommitRing>> ring = CommitRing::make({.perform = perform, .on_broken = on_broken_});
  if (!ring) return;
  ring_ = std::move(*ring);
  std::get<WelcomeFrame>(welcome.frame).ring_records = CommitRing::kRecords;
  welcome.descriptors.push_back(ring_->descriptor());
}

Result<ClientSession::Answer> ClientSession::opened(Root root) {
  const Result<uint64_t> slot_bytes = domain_->store.slot_bytes(root);
  if (!slot_bytes) return fail(slot_bytes.error());
  const SharedRoot shared = domain_->store.shared_root(root);
  return Answer{OpenedFrame{.keyspace = {root.value, root.generation},
                            .root_run = shared.run,
                            .root_version = shared.ver,
                            .slot_bytes = *slot_bytes}};
}

Result<Root> ClientSession::open_root(std::span<const std::byte> keyspace, std::span<const std::byte> geometry) {
  const Result<Keyspace> decoded = Keyspace::decode(keyspace);
  if (!decoded) return fail(decoded.error());
  const Result<BlockGeometry> shape = decode_geometry(geometry);
  if (!shape) return fail(shape.error());
  return domain_->store.open(*decoded, *shape);
}

Result<ClientSession::Answer> ClientSession::on(const OpenFrame& open) {
  const Result<Root> root = open_root(open.keyspace, open.geometry);
  if (!root) return fail(root.error());
  // Who only asks for statistics needs no thread.
  if (ring_ != nullptr) ring_->start();
  return opened(*root);
}

Result<ClientSession::Answer> ClientSession::on(const AskRootFrame& ask) {
  return opened({ask.keyspace.number, ask.keyspace.generation});
}

Result<ClientSession::Answer> ClientSession::on(const AskChunkFrame& ask) {
  const Result<ChunkLayout> layout = domain_->store.shared().slab.chunk_layout(ask.number);
  if (!layout) return fail(layout.error());
  handed_chunks_[ask.number] = layout->bytes;
  return Answer{ChunkFrame{.number = ask.number, .bytes = layout->bytes}, {layout->descriptor}};
}

// Number 0 is the index, those behind it are the segments of the directory.
Result<ClientSession::Answer> ClientSession::on(const AskDirectoryFrame& ask) {
  const Store::Shared shared = domain_->store.shared();
  if (ask.number == 0) {
    return Answer{DirectoryFrame{.number = 0, .bytes = shared.index.bytes().size()}, {shared.index.descriptor()}};
  }
  const Result<int> descriptor = shared.directory.descriptor(ask.number - 1);
  if (!descriptor) return fail(descriptor.error());
  return Answer{DirectoryFrame{.number = ask.number,
                               .bytes = BlockDirectory::kSegmentBytes,
                               .entries_count = BlockDirectory::kEntriesOfASegment},
                {*descriptor}};
}

Result<std::vector<Token>> ClientSession::copy_tokens(const StagedTokens& staged) const {
  if (staged.count > kTokensMax) return fail(Code::kInvalidArgument, "more tokens than a prompt may have");
  const auto bytes = staging_.view_parts(staged.offset, staged.count, sizeof(Token));
  if (!bytes) return fail(bytes.error());
  if (staged.offset % sizeof(Token) != 0) return fail(Code::kInvalidArgument, "tokens that are not aligned");
  const auto* const first = reinterpret_cast<const Token*>(bytes->data());
  return std::vector<Token>(first, first + staged.count);
}

Result<CommittedFrame> ClientSession::commit(const CommitFrame& commit, const CommitRing* ring) const {
  const Root root{commit.keyspace.number, commit.keyspace.generation};
  const Result<uint64_t> slot_bytes = domain_->store.slot_bytes(root);
  if (!slot_bytes) return fail(slot_bytes.error());
  const uint64_t payload_bytes = *slot_bytes - identity_bytes(domain_->store.block_tokens());
  const Result<std::vector<Token>> tokens = copy_tokens(commit.tokens);
  if (!tokens) return fail(tokens.error());
  if (tokens->size() != (uint64_t{commit.first_block} + commit.blocks_count) * domain_->store.block_tokens()) {
    return fail(Code::kInvalidArgument, "tokens and blocks do not fit together");
  }
  const auto payloads = staging_.view_parts(commit.payloads_offset, commit.blocks_count, payload_bytes);
  if (!payloads) return fail(payloads.error());
  Result<BlockDraft> draft = domain_->store.reserve(root, *tokens, commit.first_block);
  if (!draft) return fail(draft.error());
  CommittedFrame committed{.stored_before_count = draft->first_block() - commit.first_block};
  // What is checksummed and found by others is the copy.
  for (size_t i = 0; i < draft->blocks_count(); ++i) {
    if (ring != nullptr && ring->is_over()) return fail(Code::kCancelled, "the session is over");
    const uint64_t at = (draft->first_block() - commit.first_block + i) * payload_bytes;
    draft->fill_next(payloads->subspan(at, payload_bytes));
  }
  committed.visible_count = static_cast<uint32_t>(domain_->store.commit(std::move(*draft)));
  tell_flights(root, *tokens);
  return committed;
}

// Somebody else may have stored what the client has not.
void ClientSession::tell_flights(Root root, std::span<const Token> tokens) const {
  const MutexLock lock(domain_->flights_mutex);
  Flights& flights = domain_->flights;
  if (flights.claims_count() + flights.waits_count() == 0) return;
  const size_t visible = size_t{domain_->store.peek(root, tokens)} * domain_->store.block_tokens();
  flights.committed(number_, root, tokens.first(visible), monotonic_now_ns());
}

Result<ClientSession::Answer> ClientSession::on(const LoadFrame& load) {
  const Result<std::vector<Token>> tokens = copy_tokens(load.blocks.tokens);
  if (!tokens) return fail(tokens.error());
  StoredPrefix prefix;
  domain_->store.lookup({load.blocks.keyspace.number, load.blocks.keyspace.generation}, *tokens, prefix);
  const uint32_t end = domain_->store.promote(prefix, *tokens, load.blocks.first, load.blocks.end);
  // What has begun goes on without the prefix; the client's slot keeps what has landed.
  return Answer{LoadingFrame{.end = end, .deadline_ns = prefix.load_deadline_ns()}};
}

Result<std::vector<Token>> ClientSession::copy_tokens(const BlocksOfPrompt& blocks) const {
  const Root root{blocks.keyspace.number, blocks.keyspace.generation};
  const Result<uint64_t> slot_bytes = domain_->store.slot_bytes(root);
  if (!slot_bytes) return fail(slot_bytes.error());
  if (blocks.tokens.count != uint64_t{blocks.end} * domain_->store.block_tokens()) {
    return fail(Code::kInvalidArgument, "tokens and blocks do not fit together");
  }
  return copy_tokens(blocks.tokens);
}

Result<ClientSession::Answer> ClientSession::on(const AnnounceFrame& announce) {
  const Root root{announce.blocks.keyspace.number, announce.blocks.keyspace.generation};
  const Result<std::vector<Token>> tokens = copy_tokens(announce.blocks);
  if (!tokens) return fail(tokens.error());
  // The client has looked before: more may be there by now.
  const MutexLock lock(domain_->flights_mutex);
  const uint32_t first = std::max(announce.blocks.first, domain_->store.peek(root, *tokens));
  if (first == announce.blocks.end && first > announce.blocks.first) return Answer{ClaimedFrame{}};
  const Result<Flights::Announced> announced =
      domain_->flights.announce(number_, root, *tokens, first, announce.patience_ns, monotonic_now_ns());
  if (!announced) return fail(announced.error());
  return Answer{ClaimedFrame{.claim = announced->claim, .end = announced->end}};
}

Result<ClientSession::Answer> ClientSession::on(const WaitFrame& wait) {
  const Root root{wait.blocks.keyspace.number, wait.blocks.keyspace.generation};
  const Result<std::vector<Token>> tokens = copy_tokens(wait.blocks);
  if (!tokens) return fail(tokens.error());
  const uint64_t now_ns = monotonic_now_ns();
  const MutexLock lock(domain_->flights_mutex);
  WaitedFrame waited{.end = domain_->store.peek(root, *tokens)};
  if (waited.end > wait.blocks.first) return Answer{waited};
  const auto until_ns = domain_->flights.computed_until(root, *tokens, wait.blocks.first, now_ns);
  waited.why = until_ns ? WaitOutcome::kNotYet : WaitOutcome::kNobody;
  if (!until_ns) return Answer{waited};
  waited.until_ns = *until_ns;
  const Status waits = domain_->flights.wait(number_, root, *tokens, wait.blocks.first, wait.deadline_ns, now_ns);
  if (!waits) return fail(waits.error());
  return Answer{waited};
}

Result<ClientSession::Answer> ClientSession::on(const ExplainFrame& explain) {
  const Root root{explain.keyspace.number, explain.keyspace.generation};
  const Result<uint64_t> slot_bytes = domain_->store.slot_bytes(root);
  if (!slot_bytes) return fail(slot_bytes.error());
  const Result<std::vector<Token>> tokens = copy_tokens(explain.tokens);
  if (!tokens) return fail(tokens.error());
  StoredPrefix prefix;
  domain_->store.lookup(root, *tokens, prefix);
  ExplainedFrame explained{.reason = prefix.reason(), .blocks_count = static_cast<uint32_t>(prefix.blocks())};
  {
    const MutexLock lock(domain_->flights_mutex);
    const uint64_t now_ns = monotonic_now_ns();
    // Who computes it himself has missed it for another reason.
    if (domain_->flights.is_computed_by_others(number_, root, *tokens, explained.blocks_count, now_ns)) {
      explained.reason = Reason::kInFlight;
    }
  }
  explained.text = reason_name(explained.reason);
  return Answer{explained};
}

// Whoever reports a block that is sound changes nothing by it.
Result<ClientSession::Answer> ClientSession::on(const ReportFrame& report) {
  const Root root{report.blocks.keyspace.number, report.blocks.keyspace.generation};
  const Result<std::vector<Token>> tokens = copy_tokens(report.blocks);
  if (!tokens) return fail(tokens.error());
  if (report.blocks.end == 0) return fail(Code::kInvalidArgument, "no block");
  const uint32_t block = report.blocks.end - 1;
  StoredPrefix prefix;
  domain_->store.lookup(root, *tokens, prefix);
  if (prefix.blocks() > block) {
    // Only what is in memory can have been read, and is read here without waiting: promote() keeps it there.
    static_cast<void>(domain_->store.promote(prefix, *tokens, block, block + 1));
    const bool is_here = domain_->store.plan(prefix, *tokens, block, block + 1).load_tokens == 0;
    if (is_here && domain_->store.read(prefix, *tokens, block)) domain_->counters.add(Counter::kReportsRefuted);
  }
  return Answer{ReportedFrame{.blocks_count = static_cast<uint32_t>(prefix.blocks())}};
}

Result<ClientSession::Answer> ClientSession::on(const ClearFrame& clear) {
  if (clear.keyspace == KeyspaceNumber{}) return Answer{ClearedFrame{.blocks_count = domain_->store.clear()}};
  const Root root{clear.keyspace.number, clear.keyspace.generation};
  const Result<uint64_t> slot_bytes = domain_->store.slot_bytes(root);
  if (!slot_bytes) return fail(slot_bytes.error());
  return Answer{ClearedFrame{.blocks_count = domain_->store.clear(root)}};
}

}  // namespace rhizome
