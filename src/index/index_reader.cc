#include "index/index_reader.h"

#include <utility>

#include "concurrency/race_point.h"
#include "contract/check.h"
#include "index/index_memory.h"
#include "index/run_walk.h"

namespace rhizome {
namespace {

// A look-up that finds its path changed every time ends as a miss.
constexpr uint32_t kRetriesMax = 64;

const SharedIndexHeader& header_of(std::span<const std::byte> memory) {
  return *reinterpret_cast<const SharedIndexHeader*>(memory.data());
}

}  // namespace

template <class Policy>
struct BasicIndexReader<Policy>::State {
  State(const SharedIndexHeader& shared, const IndexMemory::Layout& layout)
      : header(shared),
        edges(layout.edges, EdgeShape::fixed(layout.units)),
        runs(layout.arena, layout.units, layout.payload_bytes, edges),
        walk(Policy(layout.block_tokens, shared.key), runs) {}

  bool is_current(SharedRoot root) const {
    if (!runs.contains(root.run, 1)) return false;
    const Run& run = runs.at(root.run);
    const RunWord word(run.word.load(std::memory_order_acquire));  // pairs with whoever let the root go
    return run.ver.load(std::memory_order_acquire) == root.ver && word.has(RunWord::kRoot) &&
           !word.has(RunWord::kRemoved | RunWord::kDead) &&
           run.touch.load(std::memory_order_relaxed) == header.epoch.load(std::memory_order_acquire);
  }
  bool holds(const typename RunWalk<Policy>::Place& place, const RunPath& path) const;

  const SharedIndexHeader& header;
  const EdgeReader edges;
  const RunReader runs;
  const RunWalk<Policy> walk;
};

// Whether all that a walk went through is still what it was, now that the slot is set.
template <class Policy>
bool BasicIndexReader<Policy>::State::holds(const typename RunWalk<Policy>::Place& place, const RunPath& path) const {
  const RunWord word(runs.at(place.run.id).word.load(std::memory_order_acquire));  // pairs with the evictor's exchange
  if (word.has(RunWord::kDead | RunWord::kRemoved) || place.run.start + word.length() < place.depth) return false;
  for (uint32_t i = 0; i < path.count; ++i) {
    // Acquire: pairs with the last store of a change. The fence before it keeps what was read of the run before it.
    if (runs.at(path.steps[i].id).ver.load(std::memory_order_acquire) != path.steps[i].ver) return false;
  }
  return true;
}

template <class Policy>
BasicIndexReader<Policy>::BasicIndexReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
template <class Policy>
BasicIndexReader<Policy>::BasicIndexReader(BasicIndexReader&&) noexcept = default;
template <class Policy>
BasicIndexReader<Policy>::~BasicIndexReader() = default;

template <class Policy>
Result<BasicIndexReader<Policy>> BasicIndexReader<Policy>::open(std::span<const std::byte> memory) {
  const Result<IndexMemory::Layout> layout = IndexMemory::layout_of(memory);
  if (!layout) return fail(layout.error());
  if (layout->payload_bytes != Policy::payload_bytes(layout->block_tokens)) {
    return fail(Code::kInvalidArgument, "an index that compares blocks in another way");
  }
  return BasicIndexReader(std::make_unique<State>(header_of(memory), *layout));
}

template <class Policy>
uint32_t BasicIndexReader<Policy>::block_tokens() const {
  return state_->walk.policy().block_elements();
}

template <class Policy>
RemoteMatch BasicIndexReader<Policy>::lookup(SharedRoot root, std::span<const Token> prompt, std::span<Location> out,
                                             HazardSlot& slot) const {
  const State& state = *state_;
  const size_t blocks = prompt.size() / block_tokens();
  RHIZOME_CHECK(out.size() >= blocks && blocks <= UINT32_MAX);
  RHIZOME_DCHECK(slot.load(std::memory_order_relaxed) == 0);
  const Prompt<Token> asked{prompt.data(), 0, static_cast<uint32_t>(blocks)};
  RemoteMatch match;
  RunPath path;
  for (; match.retries < kRetriesMax; ++match.retries) {
    match.root_is_stale = !state.is_current(root);
    if (match.root_is_stale) return match;
    const auto place = state.walk.walk(root.run, 0, asked, out.data(), &path);
    if (place.depth == 0) return match;
    RHIZOME_RACE_POINT("index.remote.before_slot");
    slot.store(place.run.id, std::memory_order_relaxed);
    RHIZOME_RACE_POINT("index.remote.before_fence");
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state.holds(place, path)) {
      match.blocks = place.depth;
      match.run = place.run.id;
      return match;
    }
    release(slot);
  }
  return match;
}

template <class Policy>
bool BasicIndexReader<Policy>::is_current(SharedRoot root) const {
  return state_->is_current(root);
}

template <class Policy>
uint32_t BasicIndexReader<Policy>::peek(SharedRoot root, std::span<const Token> prompt) const {
  const State& state = *state_;
  if (!state.is_current(root)) return 0;
  const size_t blocks = std::min<size_t>(prompt.size() / block_tokens(), UINT32_MAX);
  RunPath path;
  return state.walk.walk(root.run, 0, {prompt.data(), 0, static_cast<uint32_t>(blocks)}, nullptr, &path).depth;
}

template class BasicIndexReader<ExactPolicy>;
template class BasicIndexReader<FingerprintPolicy>;

}  // namespace rhizome
