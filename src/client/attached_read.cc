// Look-ups and reads in what is mapped.
#include "client/attached_client.h"

#include "block/checksum.h"
#include "machine/clock.h"

namespace rhizome {
namespace {

// How often a block that is being loaded is looked for: at first, and at most.
constexpr uint64_t kLookAgainNs = 50'000;
constexpr uint64_t kLookAgainMostNs = 2'000'000;
constexpr uint64_t kAskAgainNs = 250'000'000;

}  // namespace

void AttachedClient::lookup(KeyspaceId id, std::span<const Token> prompt, Hit& hit) {
  hit.release();
  if (hit.client_ != this) {
    hit.state_ = std::make_unique<AttachedHit>();
    hit.client_ = this;
  }
  KnownKeyspace* const keyspace = known(id);
  hit.reason_ = Reason::kNotCacheable;
  if (keyspace == nullptr) return;
  AttachedHit& state = *state_of(hit);
  hit.check_ = sampler_.next();
  hit.reason_ = Reason::kQuota;
  if (!state.attach_to(current())) return;
  hit.reason_ = Reason::kNeverStored;
  AttachedSession& session = state.use.session();
  if (!session.may_read()) return;
  session.heed_notices();
  const Result<OpenedKeyspace*> opened = open_at(*state.use.get(), *keyspace);
  if (!opened) return;
  state.keyspace = keyspace;
  state.locations.resize(prompt.size() / block_tokens_);
  HazardSlot& slot = session.lease().word(state.slot);
  const auto look = [&] { return session.cache().index().lookup((*opened)->root(), prompt, state.locations, slot); };
  RemoteMatch match = look();
  if (match.root_is_stale && refresh_root(session, **opened)) match = look();
  state.locations.resize(match.blocks);
  state.run = match.run;
  hit.blocks_ = match.blocks;
  if (match.run != 0) session.lease().note_touch(match.run, static_cast<uint32_t>(coarse_now_ticks()));
  if (match.blocks == prompt.size() / block_tokens_) {
    hit.reason_ = prompt.size() % block_tokens_ == 0 ? Reason::kFull : Reason::kPartialBlock;
  }
}

size_t AttachedClient::peek(KeyspaceId id, std::span<const Token> prompt) {
  KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr) return 0;
  const Use now = current();
  if (!now.session().may_read()) return 0;
  const Result<OpenedKeyspace*> opened = open_at(*now.get(), *keyspace);
  if (!opened) return 0;
  const IndexReader& index = now.session().cache().index();
  const auto root = [&] { return (*opened)->root(); };
  if (!index.is_current(root()) && !refresh_root(now.session(), **opened)) return 0;
  return size_t{index.peek(root(), prompt)} * block_tokens_;
}

size_t AttachedClient::promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  AttachedHit* const state = state_of(hit);
  end = std::min({end, hit.blocks_, prompt.size() / block_tokens_});
  if (state == nullptr || first >= end) return end;
  AttachedSession& session = state->use.session();
  const auto look = [&](size_t block) {
    const auto found = session.cache().find(state->locations[block], state->keyspace->slot_bytes);
    return found ? *found : MappedCache::Block();
  };
  // Mostly all are here, and nothing is to be done or remembered.
  size_t missing = first;
  while (missing < end && look(missing).is_here())
    ++missing;
  if (missing == end) return end;
  std::vector<MappedCache::Block> before;
  for (size_t block = missing; block < end; ++block)
    before.push_back(look(block));
  const Result<NamedBlocks> named = name_blocks(*state->use.get(), *state->keyspace, prompt, missing, end);
  if (!named) return missing;
  const Result<LoadingFrame> loading = session.ask<LoadingFrame>(LoadFrame{named->blocks});
  if (!loading) return missing;
  state->was_asked_for.resize(hit.blocks_);
  state->loads_failed.resize(hit.blocks_);
  // What the node does not load is not waited for.
  const size_t loads_end = std::clamp<size_t>(loading->end, missing, end);
  for (size_t block = missing; block < loads_end; ++block) {
    if (before[block - missing].is_here()) continue;
    state->was_asked_for[block] = true;
    state->loads_failed[block] = before[block - missing].loads_failed;
  }
  state->deadline_ns = std::max(state->deadline_ns, loading->deadline_ns);
  return loads_end;
}

// The node weighs loads against computing; who attaches loads all that promote() says.
LoadSplit AttachedClient::plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  end = std::min({end, hit.blocks_count(), prompt.size() / block_tokens_});
  LoadSplit split{.compute_from = end, .load_from = end, .end = end};
  const AttachedHit* const state = state_of(hit);
  if (state == nullptr) return split;
  for (size_t block = first; block < end; ++block) {
    const auto found = state->use.session().cache().find(state->locations[block], state->keyspace->slot_bytes);
    if (found && found->is_here()) continue;
    if (split.load_tokens == 0) split.compute_from = split.load_from = block;
    split.load_tokens += block_tokens_;
  }
  return split;
}

Identity AttachedClient::identity_of(const KnownKeyspace& keyspace, std::span<const Token> prompt, size_t block,
                                     const BlockKey& parent) const {
  return {.keyspace = keyspace.keyspace.digest(),
          .parent = parent,
          .position = static_cast<uint32_t>(block * block_tokens_),
          .tokens = prompt.subspan(block * block_tokens_, block_tokens_)};
}

void AttachedClient::end_before(Hit& hit, AttachedHit& state, size_t block, Reason reason) {
  state.locations.resize(block);
  hit.blocks_ = block;
  hit.reason_ = reason;
}

// The node believes what it finds itself, and so does whoever looks next.
void AttachedClient::report(AttachedHit& state, std::span<const Token> prompt, size_t block) {
  const Result<NamedBlocks> named = name_blocks(*state.use.get(), *state.keyspace, prompt, block, block + 1);
  if (named) static_cast<void>(state.use.session().ask<ReportedFrame>(ReportFrame{named->blocks}));
}

Result<std::span<const std::byte>> AttachedClient::read(Hit& hit, std::span<const Token> prompt, size_t i) {
  AttachedHit* const state = state_of(hit);
  if (state == nullptr || i >= hit.blocks_) return fail(Code::kOutOfRange, "the hit has no such block");
  if (prompt.size() / block_tokens_ <= i) return fail(Code::kOutOfRange, "the prompt has no such block");
  AttachedSession& session = state->use.session();
  const KnownKeyspace& keyspace = *state->keyspace;
  const auto find = [&]() -> Result<MappedCache::Block> {
    auto block = session.cache().find(state->locations[i], keyspace.slot_bytes);
    // What says where blocks are comes with the first of them that is in memory.
    if (!block && block.error().code == Code::kNotFound) return MappedCache::Block{};
    return block;
  };
  auto found = find();
  if (found && !found->is_here()) {
    if (i >= state->was_asked_for.size() || !state->was_asked_for[i]) promote(hit, prompt, i, i + 1);
    const uint64_t deadline_ns = state->deadline_ns;
    const auto comes = [&](uint64_t now_ns) {
      return i < state->was_asked_for.size() && state->was_asked_for[i] && session.is_alive() &&
             found->loads_failed == state->loads_failed[i] && now_ns < deadline_ns;
    };
    uint64_t now_ns = monotonic_now_ns();
    uint64_t ask_again_ns = now_ns + kAskAgainNs;
    for (uint64_t rest = kLookAgainNs; found && !found->is_here() && comes(now_ns);
         rest = std::min(2 * rest, kLookAgainMostNs)) {
      pause_thread(rest);
      now_ns = monotonic_now_ns();
      if (now_ns >= ask_again_ns) {
        // A node that is gone does not say that nothing comes.
        static_cast<void>(promote(hit, prompt, i, i + 1));
        ask_again_ns = now_ns + kAskAgainNs;
      }
      found = find();
    }
  }
  if (!found || !found->is_here()) {
    end_before(hit, *state, i, Reason::kLoadFailed);
    return fail(Code::kUnavailable, "the block is not in memory");
  }
  if (state->key_block == 0 || state->key_block > i) {
    state->key = keyspace.root_key;
    state->key_block = 0;
  }
  for (; state->key_block < i; ++state->key_block)
    state->key = next_key(state->key, prompt.subspan(state->key_block * block_tokens_, block_tokens_));
  const std::span<const std::byte> bytes = found->bytes;
  const bool sound = hit.check_ == BlockCheck::kIdentity || checksum(bytes) == found->checksum;
  const bool asked_for =
      sound && identity_matches(bytes.first(keyspace.identity_bytes), identity_of(keyspace, prompt, i, state->key));
  // A node that gave this client up may have used the bytes for something else: then neither says anything.
  if (session.notice().was_revoked_since(0)) {
    end_before(hit, *state, i, Reason::kLoadFailed);
    return fail(Code::kUnavailable, "the node has ended the session");
  }
  if (asked_for) {
    if (i < state->was_asked_for.size() && state->was_asked_for[i]) {
      state->was_asked_for[i] = false;
      ++hit.loaded_;
    }
    return bytes.subspan(keyspace.identity_bytes);
  }
  counters_.add(sound ? Counter::kIdentityMismatches : Counter::kChecksumFailures);
  report(*state, prompt, i);
  end_before(hit, *state, i, Reason::kCorrupt);
  return fail(Code::kDataLoss, "a stored block did not verify");
}

}  // namespace rhizome
