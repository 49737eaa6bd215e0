// A store with a tier below it, in which nothing happens by itself: the test says when something moves, and what the
// time is.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "machine/clock.h"
#include "store/store_fixture.h"
#include "tier/fault_tier.h"
#include "tier/memory_tier.h"

namespace rhizome {

inline constexpr uint64_t kSecondNs = 1000000000;

// So many blocks, each of the number behind the one before.
inline std::vector<Token> chain(Token first, size_t blocks) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < blocks; ++i) {
    const std::vector<Token> block = blocks_of({static_cast<Token>(first + i)});
    tokens.insert(tokens.end(), block.begin(), block.end());
  }
  return tokens;
}

struct TieredOptions {
  uint64_t memory_bytes = 4 << 20;
  uint64_t tier_bytes = 64 << 20;
  TierFaults faults = {};
  uint64_t seed = 1;
  TieringOptions tiering = {};
};

// Made before the store, which uses them.
struct TierParts {
  explicit TierParts(const TieredOptions& options) {
    auto memory = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = options.tier_bytes, .clock = &clock});
    auto made = std::make_unique<FaultTier>(std::move(memory), options.faults, options.seed);
    faults = made.get();
    tier = std::move(made);
  }

  ManualClock clock{kSecondNs};
  FaultTier* faults = nullptr;  // the tier, which the store owns
  std::unique_ptr<Tier> tier;
};

class TieredUser : public TierParts, public StoreUser {
 public:
  explicit TieredUser(const TieredOptions& options = {})
      : TierParts(options), StoreUser(store_options(options, *this)) {}

  BlockTable& table() { return StoreTestAccess::table(*store); }
  // All that can move now.
  void settle() {
    for (int i = 0; i < 10000 && store->step(); ++i) {
    }
  }
  // What is worth it is in the tier afterwards.
  void write_all() {
    clock.advance_ns(2 * kSecondNs);
    settle();
  }
  // Stores the blocks, and they are in the tier alone afterwards.
  void put_below(Root root, std::span<const Token> tokens) {
    EXPECT_EQ(put(root, tokens), tokens.size() / store->block_tokens());
    write_all();
    push_out();
  }
  // Puts as many blocks of `tokens` into memory as it has places for, and holds what it finds of them.
  StoredPrefix pin_all(Root root, std::vector<Token> tokens) {
    size_t slots = 0;
    if (const Result<BlockDraft> draft = store->reserve(root, tokens, 0)) {
      slots = draft->first_block() + draft->slots_count();
    }
    tokens.resize(slots * store->block_tokens());
    put(root, tokens);
    StoredPrefix held = look_up(root, tokens);
    read_all(root, held, tokens);
    return held;
  }
  // Whatever may leave memory does.
  void push_out() {
    while (StoreTestAccess::demote_one(*store)) {
    }
  }

 private:
  static StoreOptions store_options(const TieredOptions& options, TierParts& parts) {
    StoreOptions made{.memory_bytes = options.memory_bytes, .tier = std::move(parts.tier), .tiering = options.tiering};
    made.tiering.clock = &parts.clock;
    made.tiering.background = false;
    return made;
  }
};

}  // namespace rhizome
