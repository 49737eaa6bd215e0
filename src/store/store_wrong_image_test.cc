// A tier that gives whole, verified images, but not those that were asked for.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "store/forwarding_tier_fixture.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

class SwappingTier final : public ForwardingTier {
 public:
  SwappingTier() : ForwardingTier(std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 << 20})) {}

  size_t submit(std::span<const TierRequest> requests) override {
    std::vector<TierRequest> changed(requests.begin(), requests.end());
    for (TierRequest& request : changed) {
      if (request.operation == TierOperation::kRead && request.key == asked_for) request.key = given;
    }
    return ForwardingTier::submit(changed);
  }

  BlockKey asked_for;
  BlockKey given;
};

struct Case {
  const char* name;
  const char* first_tenant;
  const char* second_tenant;
  std::vector<Token> first;
  std::vector<Token> second;
};

// The tokens differ, the place differs, the tenant alone differs.
TEST(StoreWrongImage, AnotherBlocksImageIsAMiss) {
  const Case cases[] = {{"tokens", "a", "a", blocks_of({1}), blocks_of({2})},
                        {"place", "a", "a", blocks_of({1}), blocks_of({2, 1})},
                        {"tenant", "a", "b", blocks_of({1}), blocks_of({1})}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    auto made = std::make_unique<SwappingTier>();
    SwappingTier& tier = *made;
    StoreUser user(StoreOptions{.memory_bytes = 4 << 20,
                                .tier = std::move(made),
                                .tiering = {.admission = {.unused_wait_ns = 0}, .background = false}});
    const Root first = user.open(keyspace_named(each.first_tenant));
    const Root second = user.open(keyspace_named(each.second_tenant));
    user.put(first, each.first);
    user.put(second, each.second);
    BlockTable& table = StoreTestAccess::table(*user.store);
    tier.asked_for = table.key(user.look_up(first, each.first).locations().back());
    tier.given = table.key(user.look_up(second, each.second).locations().back());
    user.store->flush(real_clock().monotonic_ns() + 10000000000);
    while (StoreTestAccess::demote_one(*user.store)) {
    }
    const uint64_t images = tier.usage().images;
    EXPECT_EQ(user.get(first, each.first), each.first.size() / 16 - 1);
    EXPECT_EQ(user.count(Counter::kIdentityMismatchesTier), 1u);
    EXPECT_EQ(user.count(Counter::kIdentityMismatches), 0u) << "it came as far as memory";
    EXPECT_EQ(user.store->peek(first, each.first), each.first.size() / 16 - 1) << "it is not promised again";
    EXPECT_EQ(user.get(second, each.second), each.second.size() / 16);
    while (user.store->step()) {
    }
    EXPECT_EQ(tier.usage().images, images - 1) << "the tier was not told to forget it";
  }
}

}  // namespace
}  // namespace rhizome
