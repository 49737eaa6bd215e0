// Opening keyspaces, and finding again what a former process left in the tier.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "contract/check.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Beside its encoding, kept once, and its record: a tree without blocks and its places in the tables.
constexpr uint64_t kKeyspaceOverheadBytes = 512;

// Blocks that a tier gave back, as a forest.
struct Recovered {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Block {
    uint32_t parent = kNone;
    bool has_children = false;
    bool is_inserted = false;
    Location location = 0;
  };

  std::vector<Block> blocks;
  std::vector<Token> tokens;  // of all of them, one behind the other
  std::unordered_map<BlockKey, uint32_t, BlockKeyHash> by_key;
};

}  // namespace

Result<Root> Store::open(const Keyspace& keyspace, const BlockGeometry& geometry) {
  if (!geometry.is_valid()) return fail(Code::kInvalidArgument, "a block without payload, or of no shape");
  if (geometry.tokens_count != options_.block_tokens) {
    return fail(Code::kInvalidArgument, "blocks of another number of tokens");
  }
  const uint64_t payload_bytes = geometry.raw_bytes();
  if (payload_bytes > options_.memory_bytes) {
    return fail(Code::kResourceExhausted, "one block is larger than the memory budget");
  }
  KeyspaceForm form;
  form.digest = keyspace.digest();
  form.geometry = geometry;
  form.identity_bytes = identity_bytes(options_.block_tokens);
  form.slot_bytes = form.identity_bytes + payload_bytes;
  // Held across the calls below, so that one keyspace is opened once; neither index nor slab nor tier calls up.
  MutexLock lock(open_mutex_);
  if (!slab_->can_ever_hold(form.slot_bytes)) {
    return fail(Code::kResourceExhausted, "one block does not fit the memory budget");
  }
  const Result<Root> root = index_.open(keyspace.encoding());
  if (!root) return fail(root.error());
  if (const Opened* known = opened(*root)) {
    if (known->form.geometry != geometry) return fail(Code::kInvalidArgument, "the keyspace has another block shape");
    return *root;
  }
  const uint64_t bytes = sizeof(Opened) + keyspace.encoding().size() + kKeyspaceOverheadBytes;
  while (!slab_->charge(bytes)) {
    if (!make_room()) return fail(Code::kResourceExhausted, "no memory for another keyspace");
  }
  owned_.push_back(std::make_unique<Opened>());
  Opened& made = *owned_.back();
  made.root = *root;
  made.form = form;
  made.root_key = root_key(form.digest);
  if (mover_ != nullptr) {
    mover_->open(root->value, form);
    recover(made);
    bound_recovered();
  }
  opened_[root->value].store(&made, std::memory_order_release);  // pairs with the acquire in opened()
  publish_used();
  return *root;
}

// Until it is opened, a keyspace costs what its blocks will cost once they are known, or less: it is paid for out of
// what describes blocks that are only below, as far as that is not used.
void Store::bound_recovered() {
  const uint64_t below = std::min(table_.counts().below, below_max_);
  mover_->tier().bound_recovered((below_max_ - below) * below_block_bytes_);
}

// The index is told once for each end of a path; each block is inserted with the first end that it leads to.
void Store::recover(const Opened& keyspace) {
  Recovered found;
  mover_->tier().for_each_recovered(keyspace.form.digest, [&](const RecoveredBlock& block) {
    const size_t depth = block.position / options_.block_tokens;
    const auto parent = found.by_key.find(block.parent);
    const bool is_first = depth == 0 && block.parent == keyspace.root_key;
    if (block.tokens.size() != options_.block_tokens || (!is_first && parent == found.by_key.end())) return;
    if (found.blocks.size() >= below_max_ || found.by_key.contains(block.key)) return;
    // A key is what its parent and its tokens make it.
    if (next_key(block.parent, block.tokens) != block.key || block.image_bytes > UINT32_MAX) return;
    Recovered::Block added;
    if (!is_first) {
      added.parent = parent->second;
      found.blocks[added.parent].has_children = true;
    }
    added.location = table_.add_below(keyspace.root.value, block.key, static_cast<uint32_t>(block.image_bytes));
    found.by_key.emplace(block.key, static_cast<uint32_t>(found.blocks.size()));
    found.blocks.push_back(added);
    found.tokens.insert(found.tokens.end(), block.tokens.begin(), block.tokens.end());
  });
  mover_->tier().forget_recovered(keyspace.form.digest);
  std::vector<uint32_t> path;
  std::vector<Token> tokens;
  std::vector<Location> locations;
  std::vector<Location> canonical;
  size_t inserted_blocks = 0;
  for (uint32_t end = 0; end < found.blocks.size(); ++end) {
    if (found.blocks[end].has_children) continue;
    path.clear();
    for (uint32_t at = end; at != Recovered::kNone; at = found.blocks[at].parent)
      path.push_back(at);
    std::reverse(path.begin(), path.end());
    tokens.clear();
    locations.clear();
    uint32_t first = 0;
    for (const uint32_t at : path) {
      const auto begin = found.tokens.begin() + static_cast<std::ptrdiff_t>(size_t{at} * options_.block_tokens);
      tokens.insert(tokens.end(), begin, begin + options_.block_tokens);
      if (found.blocks[at].is_inserted) {
        ++first;
      } else {
        locations.push_back(found.blocks[at].location);
      }
    }
    canonical.resize(locations.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(keyspace.root, handle, tokens, first, locations, canonical);
    if (!inserted) continue;  // no memory in the index: these stay unknown
    const Status released = index_.release(std::move(inserted->handle));
    RHIZOME_CHECK(released.has_value());
    for (const uint32_t at : path)
      found.blocks[at].is_inserted = true;
    inserted_blocks += locations.size();
  }
  std::vector<Location> unknown;
  for (const Recovered::Block& block : found.blocks) {
    if (!block.is_inserted) unknown.push_back(block.location);
  }
  forget(unknown);
  if (inserted_blocks > 0) {
    log_info("{} blocks of this model ({} tokens) are warm from before", inserted_blocks,
             inserted_blocks * options_.block_tokens);
  }
}

}  // namespace rhizome
