#include "node/contexts.h"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kLong = 1'000'000;
constexpr ContextTerms kFork = {.use = ContextUse::kFork, .lifetime_ns = kLong};
constexpr ContextTerms kMove = {.use = ContextUse::kMove, .lifetime_ns = kLong};
constexpr ContextTerms kOutlives = {.use = ContextUse::kFork, .lifetime_ns = kLong, .outlives_publisher = true};

class ContextsTest : public testing::Test {
 protected:
  explicit ContextsTest(const ContextLimits& limits = {}) : contexts_(limits) {}

  Result<ContextHandle> try_publish(uint64_t owner, const ContextTerms& terms, size_t tokens = 3, RunId run = 0) {
    Contexts::Offer offer{.terms = terms, .run = run};
    offer.content.tokens = std::vector<Token>(tokens, static_cast<Token>(owner));
    return contexts_.publish(owner, std::move(offer), now_);
  }
  ContextHandle publish(uint64_t owner, const ContextTerms& terms, RunId run = 0) {
    const Result<ContextHandle> handle = try_publish(owner, terms, 3, run);
    EXPECT_TRUE(handle);
    return handle ? *handle : ContextHandle();
  }
  // The number of the adoption; 0: there is no such context.
  uint64_t begin(uint64_t owner, const ContextHandle& handle) {
    const auto adoption = contexts_.begin_adoption(owner, handle, now_);
    EXPECT_TRUE(adoption || adoption.error().code == Code::kNotFound);
    return adoption ? adoption->number : 0;
  }
  std::multiset<RunId> runs_of(uint64_t owner) const {
    std::vector<RunId> runs;
    contexts_.collect_runs(owner, runs);
    return {runs.begin(), runs.end()};
  }

  Contexts contexts_;
  uint64_t now_ = 1000;
};

TEST_F(ContextsTest, AForkIsAdoptedByMany) {
  const ContextHandle handle = publish(1, kFork);
  const auto first = contexts_.begin_adoption(2, handle, now_);
  const auto second = contexts_.begin_adoption(3, handle, now_);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->content->tokens, std::vector<Token>(3, 1));
  EXPECT_TRUE(contexts_.end_adoption(2, first->number, true));
  EXPECT_TRUE(contexts_.end_adoption(3, second->number, false));
  EXPECT_NE(begin(2, handle), 0u) << "as often as it likes";
  EXPECT_NE(begin(1, handle), 0u) << "the publisher, too";
}

TEST_F(ContextsTest, AMoveIsAdoptedByOne) {
  const ContextHandle handle = publish(1, kMove);
  const uint64_t first = begin(2, handle);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(begin(3, handle), 0u);
  EXPECT_EQ(begin(2, handle), 0u);
  EXPECT_EQ(contexts_.unpublish(handle, now_).error().code, Code::kNotFound);
  EXPECT_TRUE(contexts_.end_adoption(2, first, true));
  EXPECT_EQ(begin(3, handle), 0u);
  EXPECT_EQ(contexts_.contexts_count(), 0u);
}

TEST_F(ContextsTest, AMoveThatIsGivenUpIsThereAgain) {
  const ContextHandle handle = publish(1, kMove);
  EXPECT_TRUE(contexts_.end_adoption(2, begin(2, handle), false));
  EXPECT_NE(begin(2, handle), 0u);
  EXPECT_EQ(begin(3, handle), 0u);
  contexts_.leave(2);
  const uint64_t last = begin(3, handle);
  EXPECT_NE(last, 0u);
  // Nobody ends another one's.
  EXPECT_EQ(contexts_.end_adoption(2, last, true).error().code, Code::kNotFound);
  EXPECT_TRUE(contexts_.end_adoption(3, last, true));
  EXPECT_EQ(contexts_.end_adoption(3, last, true).error().code, Code::kNotFound);
}

TEST_F(ContextsTest, EndsWithItsLifetime) {
  const ContextHandle fork = publish(1, kFork);
  const ContextHandle move = publish(1, kMove);
  const ContextHandle taken = publish(1, kMove);
  const uint64_t adoption = begin(2, taken);
  now_ += kLong - 1;
  EXPECT_NE(begin(2, fork), 0u);
  contexts_.leave(2);
  const uint64_t again = begin(3, taken);
  EXPECT_NE(again, adoption);
  now_ += 1;
  EXPECT_EQ(begin(2, fork), 0u);
  EXPECT_EQ(begin(2, move), 0u);
  EXPECT_EQ(contexts_.unpublish(fork, now_).error().code, Code::kNotFound);
  EXPECT_EQ(contexts_.contexts_count(), 1u) << "whoever is adopting it still gets it";
  EXPECT_TRUE(contexts_.end_adoption(3, again, true));
  EXPECT_EQ(contexts_.contexts_count(), 0u);
}

TEST_F(ContextsTest, EndsWithItsPublisherUnlessItOutlivesHim) {
  const ContextHandle fork = publish(1, kFork);
  const ContextHandle outlives = publish(1, kOutlives);
  const uint64_t adoption = begin(2, fork);
  contexts_.leave(1);
  EXPECT_EQ(begin(3, fork), 0u);
  EXPECT_NE(begin(3, outlives), 0u);
  EXPECT_TRUE(contexts_.end_adoption(2, adoption, true));
  EXPECT_EQ(contexts_.contexts_count(), 1u);
  contexts_.leave(3);
  contexts_.leave(77);
  now_ += kLong;
  contexts_.drop_late(now_);
  EXPECT_EQ(contexts_.contexts_count(), 0u);
}

TEST_F(ContextsTest, EndsWhenItIsUnpublished) {
  const ContextHandle handle = publish(1, kFork);
  const uint64_t adoption = begin(2, handle);
  EXPECT_TRUE(contexts_.unpublish(handle, now_));
  EXPECT_EQ(contexts_.unpublish(handle, now_).error().code, Code::kNotFound);
  EXPECT_EQ(begin(3, handle), 0u);
  EXPECT_TRUE(contexts_.end_adoption(2, adoption, true));
  EXPECT_EQ(contexts_.contexts_count(), 0u);
}

TEST_F(ContextsTest, HandlesAreNotGuessed) {
  EXPECT_EQ(begin(1, {}), 0u);
  std::set<std::pair<uint64_t, uint64_t>> seen;
  ContextHandle last;
  for (int i = 0; i < 200; ++i) {
    last = publish(1, kFork);
    EXPECT_TRUE(seen.emplace(last.high, last.low).second);
  }
  EXPECT_EQ(begin(2, {}), 0u);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_EQ(begin(2, {last.high ^ uint64_t{1} << bit, last.low}), 0u);
    EXPECT_EQ(begin(2, {last.high, last.low ^ uint64_t{1} << bit}), 0u);
  }
  EXPECT_NE(begin(2, last), 0u);
}

TEST_F(ContextsTest, CountsForItsPublisherAndForWhoAdopts) {
  const ContextHandle own = publish(1, kFork, 11);
  publish(1, kFork, 12);
  const ContextHandle nobodys = publish(1, kOutlives, 13);
  EXPECT_EQ(runs_of(1), (std::multiset<RunId>{11, 12}));
  EXPECT_EQ(runs_of(Contexts::kNobody), (std::multiset<RunId>{13}));
  const uint64_t adoption = begin(2, own);
  begin(2, nobodys);
  EXPECT_EQ(runs_of(2), (std::multiset<RunId>{11, 13}));
  EXPECT_TRUE(contexts_.end_adoption(2, adoption, true));
  EXPECT_EQ(runs_of(2), (std::multiset<RunId>{13}));
  contexts_.leave(1);
  contexts_.leave(2);
  EXPECT_TRUE(runs_of(1).empty() && runs_of(2).empty());
}

class FewContexts : public ContextsTest {
 protected:
  FewContexts()
      : ContextsTest({.contexts_max = 5,
                      .contexts_of_owner_max = 2,
                      .adoptions_of_owner_max = 2,
                      .tokens_max = 100,
                      .tokens_of_owner_max = 60,
                      .lifetime_max_ns = 2 * kLong}) {}
  Code code_of(uint64_t owner, const ContextTerms& terms, size_t tokens = 3) {
    const auto handle = try_publish(owner, terms, tokens);
    return handle ? Code::kOk : handle.error().code;
  }
};

TEST_F(FewContexts, AreBounded) {
  EXPECT_EQ(code_of(1, {.lifetime_ns = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of(1, {.lifetime_ns = 2 * kLong + 1}), Code::kInvalidArgument);
  EXPECT_EQ(code_of(1, {.lifetime_ns = UINT64_MAX}), Code::kInvalidArgument);
  EXPECT_EQ(code_of(1, {.lifetime_ns = 2 * kLong}), Code::kOk);
  EXPECT_EQ(code_of(1, kFork), Code::kOk);
  EXPECT_EQ(code_of(1, kFork), Code::kResourceExhausted) << "two of one owner";
  EXPECT_EQ(code_of(1, kOutlives), Code::kOk) << "which counts for nobody";
  EXPECT_EQ(code_of(2, kOutlives), Code::kOk);
  EXPECT_EQ(code_of(3, kOutlives), Code::kResourceExhausted) << "two of nobody";
  EXPECT_EQ(code_of(2, kFork), Code::kOk);
  EXPECT_EQ(code_of(3, kFork), Code::kResourceExhausted) << "five in all";
  now_ += kLong;
  EXPECT_EQ(code_of(3, kFork), Code::kOk) << "what is over does not count";
}

TEST_F(FewContexts, TokensAreBounded) {
  EXPECT_EQ(code_of(1, kFork, 61), Code::kResourceExhausted);
  EXPECT_EQ(code_of(1, kFork, 60), Code::kOk);
  EXPECT_EQ(code_of(1, kFork, 1), Code::kResourceExhausted);
  EXPECT_EQ(code_of(2, kFork, 41), Code::kResourceExhausted);
  EXPECT_EQ(code_of(2, kFork, 40), Code::kOk);
  // The keyspace's encoding is kept, too.
  contexts_.leave(1);
  Contexts::Offer offer{.terms = kFork};
  offer.content.keyspace.resize(61 * sizeof(Token));
  EXPECT_EQ(contexts_.publish(1, std::move(offer), now_).error().code, Code::kResourceExhausted);
}

TEST_F(FewContexts, AdoptionsUnderWayAreBounded) {
  const ContextHandle handle = publish(1, kFork);
  begin(2, handle);
  const uint64_t second = begin(2, handle);
  EXPECT_EQ(contexts_.begin_adoption(2, handle, now_).error().code, Code::kResourceExhausted);
  EXPECT_EQ(contexts_.begin_adoption(2, {1, 2}, now_).error().code, Code::kResourceExhausted) << "it says nothing";
  EXPECT_NE(begin(3, handle), 0u);
  EXPECT_TRUE(contexts_.end_adoption(2, second, false));
  EXPECT_NE(begin(2, handle), 0u);
}

class PinnedContexts : public ContextsTest {
 protected:
  PinnedContexts() {
    EXPECT_TRUE(store_);
    root_ = *(*store_)->open(keyspace_named("a"), block_of(500));
    Result<BlockDraft> draft = (*store_)->reserve(root_, prompt_, 0);
    EXPECT_TRUE(draft);
    EXPECT_EQ((*store_)->commit(std::move(*draft)), 4u);
  }
  ContextHandle publish_pinned(const ContextTerms& terms) {
    Contexts::Offer offer{.terms = terms};
    (*store_)->lookup(root_, prompt_, offer.pins);
    offer.content.tokens = prompt_;
    const auto handle = pinned_.publish(1, std::move(offer), now_);
    EXPECT_TRUE(handle);
    return *handle;
  }
  size_t clear() { return (*store_)->clear(); }

  const std::unique_ptr<Counters> counters_ = Counters::local();
  Result<std::unique_ptr<Store>> store_ = Store::create({.memory_bytes = 8 << 20}, *counters_);
  const std::vector<Token> prompt_ = blocks_of({1, 2, 3, 4});
  Root root_;
  Contexts pinned_;
};

TEST_F(PinnedContexts, KeepTheirBlocksUntilTheLastAdoptionHasEnded) {
  const ContextHandle handle = publish_pinned(kMove);
  EXPECT_EQ(clear(), 0u);
  const auto adoption = pinned_.begin_adoption(2, handle, now_);
  ASSERT_TRUE(adoption);
  EXPECT_EQ(adoption->blocks, 4u);
  pinned_.leave(1);
  EXPECT_EQ(clear(), 0u) << "the adopter may not have looked yet";
  EXPECT_EQ(adoption->content->tokens, prompt_);
  EXPECT_TRUE(pinned_.end_adoption(2, adoption->number, true));
  EXPECT_EQ(clear(), 4u);
}

TEST_F(PinnedContexts, GiveTheirBlocksBack) {
  const ContextHandle first = publish_pinned(kFork);
  publish_pinned(kOutlives);
  EXPECT_TRUE(pinned_.unpublish(first, now_));
  EXPECT_EQ(clear(), 0u);
  pinned_.drop_late(now_ + kLong);
  EXPECT_EQ(clear(), 4u);
}

// Against a model: who may find what, and that nothing is left.
TEST_F(ContextsTest, AnyOrder) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  struct Known {
    ContextHandle handle;
    ContextTerms terms;
    uint64_t owner = 0;
    uint64_t until = 0;
    std::map<uint64_t, uint64_t> adoptions;  // number, owner
    bool is_over = false;
    bool is_found(uint64_t now) const {
      return !is_over && now < until && (terms.use == ContextUse::kFork || adoptions.empty());
    }
  };
  std::vector<Known> known;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t owner = 1 + random() % 4;
    Known* const one = known.empty() ? nullptr : &known[random() % known.size()];
    const uint64_t choice = random() % 10;
    if (choice < 2 || one == nullptr) {
      const ContextTerms terms{.use = random() % 2 == 0 ? ContextUse::kFork : ContextUse::kMove,
                               .lifetime_ns = 1 + random() % 200,
                               .outlives_publisher = random() % 2 == 0};
      known.push_back({publish(owner, terms), terms, owner, now_ + terms.lifetime_ns, {}, false});
    } else if (choice < 6) {
      const auto begun = contexts_.begin_adoption(owner, one->handle, now_);
      if (!begun && begun.error().code == Code::kResourceExhausted) continue;
      ASSERT_EQ(begun.has_value(), one->is_found(now_)) << step;
      if (begun) one->adoptions[begun->number] = owner;
    } else if (choice < 8 && !one->adoptions.empty()) {
      const auto [number, adopter] = *one->adoptions.begin();
      const bool keeps = random() % 2 == 0;
      ASSERT_TRUE(contexts_.end_adoption(adopter, number, keeps));
      one->adoptions.erase(number);
      if (keeps && one->terms.use == ContextUse::kMove) one->is_over = true;
    } else if (choice == 8) {
      const bool is_found = one->is_found(now_);
      ASSERT_EQ(contexts_.unpublish(one->handle, now_).has_value(), is_found) << step;
      if (is_found) one->is_over = true;
    } else if (random() % 8 == 0) {
      contexts_.leave(owner);
      for (Known& each : known) {
        std::erase_if(each.adoptions, [&](const auto& adoption) { return adoption.second == owner; });
        if (each.owner == owner && !each.terms.outlives_publisher) each.is_over = true;
      }
    }
    now_ += random() % 4;
    std::erase_if(known,
                  [&](const Known& each) { return (each.is_over || each.until <= now_) && each.adoptions.empty(); });
  }
  for (uint64_t owner = 1; owner <= 4; ++owner)
    contexts_.leave(owner);
  contexts_.drop_late(now_ + 200);
  EXPECT_EQ(contexts_.contexts_count() + contexts_.adoptions_count(), 0u);
}

}  // namespace
}  // namespace rhizome
