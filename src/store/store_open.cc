// Opening keyspaces, and finding again what a former process left in the tier.
#include <utility>

#include "contract/check.h"
#include "store/recovered.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Beside its encoding, kept here and in the index, and its record: a tree without blocks and its places in the tables.
constexpr uint64_t kKeyspaceOverheadBytes = 512;

}  // namespace

// Of memory, without its page of the book.
uint64_t Store::opened_bytes(const Keyspace& keyspace) {
  return sizeof(Opened) + 2 * keyspace.encoding().size() + kKeyspaceOverheadBytes;
}

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
  const uint64_t bytes = opened_bytes(keyspace);
  const uint64_t book_bytes = book_ == nullptr ? 0 : book_->bytes_needed(keyspace);
  while (!slab_->charge(bytes + book_bytes)) {
    if (!make_room()) return fail(Code::kResourceExhausted, "no memory for another keyspace");
  }
  owned_.push_back(std::make_unique<Opened>(Opened{keyspace, *root, root_key(form.digest), form}));
  const Opened& made = *owned_.back();
  // Before a block of it can be committed.
  if (book_ != nullptr && !book_->add(keyspace, geometry)) {
    log_once("store.book", "a keyspace could not be written down: its blocks will not outlive this process");
  }
  if (mover_ != nullptr) mover_->open(root->value, form);
  recover(made);
  if (mover_ != nullptr) bound_recovered();
  opened_[root->value].store(owned_.back().get(), std::memory_order_release);  // pairs with the acquire in opened()
  publish_used();
  return *root;
}

// Until it is opened, a keyspace costs what its blocks will cost once they are known, or less: it is paid for out of
// what describes blocks that are only below, as far as that is not used.
void Store::bound_recovered() {
  const uint64_t below = std::min(table_.counts().below, below_max_);
  mover_->tier().bound_recovered((below_max_ - below) * below_block_bytes_);
}

void Store::recover(const Opened& keyspace) {
  Recovered found(options_.block_tokens);
  std::vector<SlotRef> unknown;
  if (const auto left = left_in_memory_.extract(BlockKey{keyspace.form.digest}); !left.empty()) {
    for (const LeftBlock& block : left.mapped()) {
      const IdentityRecord& identity = block.identity;
      const bool is_new = found.add_in_memory(identity.parent, identity.position, identity.tokens, block.slot);
      if (!is_new) unknown.push_back(block.slot);
    }
  }
  if (mover_ != nullptr) {
    mover_->tier().for_each_recovered(keyspace.form.digest, [&](const RecoveredBlock& block) {
      if (block.image_bytes > UINT32_MAX) return;
      found.add_in_tier(block.key, block.parent, static_cast<uint32_t>(block.position), block.tokens,
                        static_cast<uint32_t>(block.image_bytes));
    });
    mover_->tier().forget_recovered(keyspace.form.digest);
  }
  describe_recovered(keyspace, found, unknown);
  const size_t inserted_blocks = insert_recovered(keyspace, found);
  std::vector<Location> not_inserted;
  for (const Recovered::Block& block : found.blocks()) {
    if (block.is_linked && !block.is_inserted) not_inserted.push_back(block.location);
  }
  forget(not_inserted);
  for (const SlotRef slot : unknown)
    free_slot(slot);
  if (inserted_blocks > 0) {
    log_info("keyspace {}: {} blocks ({} tokens) are warm from before", hex(keyspace.form.digest, 6), inserted_blocks,
             inserted_blocks * options_.block_tokens);
  }
}

// Blocks that hang together with the root get a location each; the slots of the others go to `unknown`.
void Store::describe_recovered(const Opened& keyspace, Recovered& found, std::vector<SlotRef>& unknown) {
  const uint64_t now = mover_ != nullptr ? now_ns() : 0;
  uint64_t below = 0;
  for (const uint32_t at : found.in_order()) {
    Recovered::Block& block = found.blocks()[at];
    if (!found.link(at, keyspace.root_key) || (!block.slot && below >= below_max_)) {
      if (block.slot) unknown.push_back(*block.slot);
      continue;
    }
    block.is_linked = true;
    if (block.parent != Recovered::kNone) found.blocks()[block.parent].has_children = true;
    if (!block.slot) {
      ++below;
      block.location = table_.add_below(keyspace.root.value, block.key, block.image_bytes);
      continue;
    }
    block.location = table_.add({.keyspace = keyspace.root.value,
                                 .key = block.key,
                                 .slot = *block.slot,
                                 .now_ns = now,
                                 .place = slab_->place(*block.slot)});
    if (block.image_bytes > 0) table_.add_copy(block.location, block.image_bytes);
    note_adopted(block.location, *block.slot, keyspace.root.value);
  }
}

// The index is told once for each end of a path; each block is inserted with the first end that it leads to.
size_t Store::insert_recovered(const Opened& keyspace, Recovered& found) {
  std::vector<Recovered::Block>& blocks = found.blocks();
  std::vector<uint32_t> path;
  std::vector<Token> tokens;
  std::vector<Location> locations;
  std::vector<Location> canonical;
  size_t inserted_blocks = 0;
  for (uint32_t end = 0; end < blocks.size(); ++end) {
    if (blocks[end].has_children || !blocks[end].is_linked) continue;
    found.path_to(end, path, tokens);
    locations.clear();
    uint32_t first = 0;
    for (const uint32_t at : path) {
      if (blocks[at].is_inserted) {
        ++first;
      } else {
        locations.push_back(blocks[at].location);
      }
    }
    canonical.resize(locations.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(keyspace.root, handle, tokens, first, locations, canonical);
    if (!inserted) continue;  // no memory in the index: these stay unknown
    const Status released = index_.release(std::move(inserted->handle));
    RHIZOME_CHECK(released.has_value());
    for (const uint32_t at : path) {
      blocks[at].is_inserted = true;
      if (blocks[at].has_children) table_.set_has_children(blocks[at].location);
    }
    inserted_blocks += locations.size();
  }
  return inserted_blocks;
}

}  // namespace rhizome
