// Written around memory: blocks that go straight into the tier, because all of memory is in somebody's hands.
#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "store/store.h"

namespace rhizome {
namespace {

// So long a block may be on its way into the tier before nobody counts on it any more.
constexpr uint64_t kAroundWaitNs = 5000000000;

}  // namespace

void Store::skip_around(BlockDraft& draft, std::span<const Token> tokens) const {
  if (around_blocks() == 0) return;
  const uint64_t now = now_ns();
  const size_t blocks = tokens.size() / options_.block_tokens;
  while (draft.first_block_ < blocks) {
    const size_t position = size_t{draft.first_block_} * options_.block_tokens;
    const BlockKey key = next_key(draft.parent_, tokens.subspan(position, options_.block_tokens));
    if (!mover_->around().is_under_way(key, now)) return;
    draft.parent_ = key;
    draft.before_.reset();
    ++draft.first_block_;
  }
}

// Up to the first block that is on its way already: who computes that one is told when he asks again.
void Store::take_buffers(const Opened& keyspace, BlockDraft& draft, std::span<const Token> tokens) {
  const size_t blocks = tokens.size() / options_.block_tokens;
  if (mover_ == nullptr || draft.first_block_ + draft.slots_.size() == blocks) return;
  const bool may_be_under_way = around_blocks() > 0;
  const uint64_t now = now_ns();
  BlockKey key = draft.parent_;
  for (size_t block = draft.first_block_; block < blocks; ++block) {
    const bool has_slot = block < draft.first_block_ + draft.slots_.size();
    if (may_be_under_way) {
      key = next_key(key, tokens.subspan(block * options_.block_tokens, options_.block_tokens));
      if (!has_slot && mover_->around().is_under_way(key, now)) return;
    }
    if (has_slot) continue;
    Staging::Buffer buffer = mover_->lend(keyspace.root.value);
    if (!buffer) return;
    draft.buffers_.push_back(std::move(buffer));
  }
}

void Store::send_around(const Opened& keyspace, BlockDraft& draft) {
  if (draft.buffers_.empty()) return;
  AroundChains::Chain chain{.root = draft.root_,
                            .first_block = draft.first_block_,
                            .parent = draft.parent_,
                            .deadline_ns = now_ns() + kAroundWaitNs};
  std::vector<Mover::Around> blocks(draft.buffers_.size());
  BlockKey key = draft.parent_;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].checksum = seal(keyspace, draft, i, key);
    blocks[i].key = key;
    blocks[i].keyspace = keyspace.root.value;
    blocks[i].deadline_ns = chain.deadline_ns;
    chain.keys.push_back(key);
  }
  chain.tokens = std::move(draft.tokens_);
  const uint64_t number = mover_->around().add(std::move(chain));
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].ticket = {number, static_cast<uint32_t>(i)};
    blocks[i].buffer = std::move(draft.buffers_[i]);
  }
  draft.buffers_.clear();
  mover_->write_around(std::move(blocks));
}

// What the tier has taken becomes visible, if the block before it is there still.
bool Store::publish_around() {
  if (around_blocks() == 0) return false;
  bool is_one_gone = false;
  const auto publish = [this, &is_one_gone](const AroundChains::Chain& chain, uint32_t first,
                                            std::span<const Location> blocks) {
    const uint32_t first_block = chain.first_block + first;
    const size_t tokens_count = (first_block + blocks.size()) * options_.block_tokens;
    Handle handle;
    const auto tokens = std::span<const Token>(chain.tokens).first(tokens_count);
    if (!insert(chain.root, handle, tokens, first_block, blocks)) return false;
    // The tier may have forgotten one of them before it was in the index.
    is_one_gone = is_one_gone || std::ranges::any_of(blocks, [this](Location at) { return table_.is_gone(at); });
    const Status released = index_.release(std::move(handle));
    RHIZOME_CHECK(released.has_value());
    return true;
  };
  const size_t resolved =
      mover_->around().resolve(publish, [this](Location location) { forget(std::span(&location, 1)); });
  if (resolved == 0) return false;
  if (is_one_gone) forget_gone();
  reap();
  publish_used();
  return true;
}

}  // namespace rhizome
