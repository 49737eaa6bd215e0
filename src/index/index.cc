#include "index/index.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "concurrency/mutex.h"
#include "contract/check.h"
#include "index/run_tree.h"

namespace rhizome {

Handle::~Handle() {
  // A pin that is dropped is never given back: what it holds could not be evicted any more.
  RHIZOME_DCHECK(empty());
}

Handle& Handle::operator=(Handle&& other) noexcept {
  RHIZOME_CHECK(empty());
  run_ = std::exchange(other.run_, 0);
  depth_ = std::exchange(other.depth_, 0);
  return *this;
}

uint64_t Handle::pack(Handle handle) {
  const uint64_t packed = uint64_t{handle.depth_} << 32 | handle.run_;
  handle.run_ = 0;
  return packed;
}

Handle Handle::unpack(uint64_t packed) {
  Handle handle;
  handle.run_ = static_cast<uint32_t>(packed);
  handle.depth_ = static_cast<uint32_t>(packed >> 32);
  return handle;
}

struct Index::State {
  explicit State(const IndexOptions& chosen) : options(chosen), tree(chosen.block_tokens, chosen.hash) {}

  RunId root_run(Root root) const REQUIRES(mutex) {
    return root.value == 0 || root.value > roots.size() ? 0 : roots[root.value - 1];
  }

  const IndexOptions options;
  Mutex mutex;
  RunTree tree GUARDED_BY(mutex);
  std::map<std::string, Root, std::less<>> roots_by_encoding GUARDED_BY(mutex);
  std::vector<RunId> roots GUARDED_BY(mutex);
};

Index::Index(const IndexOptions& options) : state_(std::make_unique<State>(options)) {
  RHIZOME_CHECK(options.block_tokens > 0);
}

Index::~Index() = default;

Result<Root> Index::open(std::span<const std::byte> encoding) {
  MutexLock lock(state_->mutex);
  const std::string_view key(reinterpret_cast<const char*>(encoding.data()), encoding.size());
  const auto known = state_->roots_by_encoding.find(key);
  if (known != state_->roots_by_encoding.end()) return known->second;
  if (state_->roots.size() >= state_->options.roots_max) return fail(Code::kResourceExhausted, "too many keyspaces");
  const Root root{static_cast<uint32_t>(state_->roots.size() + 1)};
  state_->roots.push_back(state_->tree.add_root(root.value));
  state_->roots_by_encoding.emplace(key, root);
  return root;
}

Match Index::lookup(Root root, std::span<const Token> tokens, std::span<Location> out) {
  RHIZOME_CHECK(out.size() >= tokens.size() / state_->options.block_tokens);
  MutexLock lock(state_->mutex);
  Match match;
  const RunId root_run = state_->root_run(root);
  if (root_run == 0) return match;
  RunTree& tree = state_->tree;
  const RunTree::Place place = tree.walk({root_run, 0}, tokens);
  tree.copy_locations(place, 0, out);
  tree.pin(place.run);
  tree.touch(place.run);
  match.handle.run_ = place.run;
  match.handle.depth_ = place.depth;
  match.blocks = place.depth;
  match.reason = tree.why_stopped(place, tokens, match.stopped_at);
  return match;
}

uint32_t Index::peek(Root root, std::span<const Token> tokens) const {
  MutexLock lock(state_->mutex);
  const RunId root_run = state_->root_run(root);
  return root_run == 0 ? 0 : state_->tree.walk({root_run, 0}, tokens).depth;
}

Result<Inserted> Index::insert(Handle& handle, std::span<const Token> tokens, uint32_t first_block,
                               std::span<const Location> locations, std::span<Location> canonical) {
  const size_t block_tokens = state_->options.block_tokens;
  const size_t total = first_block + locations.size();
  if (locations.empty()) return fail(Code::kInvalidArgument, "no blocks to insert");
  if (tokens.size() != total * block_tokens || canonical.size() != locations.size()) {
    return fail(Code::kInvalidArgument, "tokens and locations do not fit together");
  }
  MutexLock lock(state_->mutex);
  RunTree& tree = state_->tree;
  if (!tree.is_pinned(handle.run_)) return fail(Code::kFailedPrecondition, "stale handle");
  const RunTree::Place known = tree.nearest_live({handle.run_, handle.depth_}, static_cast<uint32_t>(total));
  RunTree::Place place = tree.walk(known, tokens);
  if (place.depth < first_block) return fail(Code::kFailedPrecondition, "the blocks before are not stored");
  Inserted inserted;
  inserted.stored_before = place.depth - first_block;
  std::copy(locations.begin(), locations.end(), canonical.begin());
  tree.copy_locations(place, first_block, canonical);
  if (place.depth < total) {
    const RunTree::Attached attached = tree.attach(place, handle.run_, tokens.subspan(place.depth * block_tokens),
                                                   locations.subspan(inserted.stored_before));
    place = attached.place;
    inserted.split_at = attached.split_at;
  }
  // The new pin first: at no time is the path without one.
  tree.pin(place.run);
  tree.touch(place.run);
  tree.unpin(std::exchange(handle.run_, 0));
  handle.depth_ = 0;
  inserted.handle.run_ = place.run;
  inserted.handle.depth_ = place.depth;
  return inserted;
}

Status Index::release(Handle handle) {
  const RunId run = std::exchange(handle.run_, 0);
  if (run == 0) return {};
  MutexLock lock(state_->mutex);
  if (!state_->tree.is_pinned(run) || handle.depth_ > state_->tree.depth_of(run)) {
    return fail(Code::kFailedPrecondition, "stale handle");
  }
  state_->tree.unpin(run);
  return {};
}

size_t Index::evict(std::span<Location> out) {
  MutexLock lock(state_->mutex);
  return state_->tree.evict(out);
}

size_t Index::remove(const Handle& handle, uint32_t first_block) {
  MutexLock lock(state_->mutex);
  RHIZOME_CHECK(state_->tree.is_pinned(handle.run_) && first_block < handle.depth_);
  return state_->tree.remove({handle.run_, handle.depth_}, first_block);
}

size_t Index::reap(std::span<Location> out) {
  MutexLock lock(state_->mutex);
  return state_->tree.reap(out);
}

uint64_t Index::held_blocks(Root root) const {
  MutexLock lock(state_->mutex);
  return state_->root_run(root) == 0 ? 0 : state_->tree.held_blocks(root.value);
}

IndexUsage Index::usage() const {
  MutexLock lock(state_->mutex);
  return state_->tree.usage();
}

uint64_t Index::block_bytes_max(uint32_t block_tokens) {
  // A run of one block: its array may be twice as long as needed; then the run, its places in the
  // tables (which double when they grow), its place among the idle, and what the heap adds to each allocation.
  constexpr uint64_t tables = 2 * (sizeof(void*) + 2 * sizeof(RunId)) + 2 * sizeof(Location);
  constexpr uint64_t idle = 64;
  constexpr uint64_t heap = 48;
  return 2 * (uint64_t{block_tokens} + 1) * sizeof(uint32_t) + sizeof(Run) + tables + idle + heap;
}

}  // namespace rhizome
