// Contexts that are handed over: within one client, between clients of a node, and between processes that are killed.
#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "client/attached_user_fixture.h"
#include "client/raw_client_fixture.h"
#include "client/test_process.h"
#include "codec/geometry_record.h"
#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/random.h"
#include "machine/tampering.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "slab/block_copy.h"
#include "telemetry/log.h"
#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPatienceNs = 20'000'000'000;
constexpr uint64_t kShort = 20'000'000;
constexpr ContextTerms kFork = {.use = ContextUse::kFork};
constexpr ContextTerms kMove = {.use = ContextUse::kMove};

void put(Client& client, KeyspaceId id, std::span<const Token> tokens) {
  Result<Draft> draft = client.reserve(id, tokens, 0);
  ASSERT_TRUE(draft) << draft.error().reason;
  for (size_t i = 0; i < draft->blocks_count(); ++i) {
    fill_oracle(draft->payload(i), keyspace_named("a").digest(),
                tokens.first((draft->first_block() + i + 1) * client.block_tokens()));
  }
  client.commit(std::move(*draft));
}

// How many blocks of the context are right, from its beginning on.
size_t right_blocks(Client& client, Context& context) {
  size_t right = 0;
  for (; right < context.hit.blocks_count(); ++right) {
    const auto bytes = client.read(context.hit, context.tokens, right);
    const auto prompt = std::span<const Token>(context.tokens).first((right + 1) * client.block_tokens());
    if (!bytes || !oracle_matches(*bytes, keyspace_named("a").digest(), prompt)) break;
  }
  return right;
}

// Two who share a cache: both threads of one client, or each with a client of its own.
class ContextTest : public testing::TestWithParam<bool> {
 protected:
  ContextTest() {
    set_log_level(LogLevel::kSilent);
    if (GetParam()) {
      const std::string socket = folder_.path("run/node.sock");
      node_ = std::move(*Node::start({.socket_path = socket, .memory_bytes = 8 * kMiB}, *counters_));
      for (auto& client : clients_)
        client = std::move(*make_attached_client({.socket_path = socket}, *counters_));
    } else {
      clients_[0] = std::move(*make_embedded_client({.memory_bytes = 8 * kMiB}, *counters_));
    }
    // The second one has opened nothing.
    id_ = *of(0).open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes));
    put(of(0), id_, prompt_);
  }

  Client& of(size_t who) { return GetParam() ? *clients_[who] : *clients_[0]; }
  ContextHandle publish(std::span<const Token> prompt, const ContextTerms& terms) {
    const auto handle = of(0).publish(id_, prompt, terms);
    EXPECT_TRUE(handle) << handle.error().reason;
    return handle ? *handle : ContextHandle();
  }
  Code code_of(size_t who, const ContextHandle& handle) {
    const auto context = of(who).adopt(handle);
    return context ? Code::kOk : context.error().code;
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  std::unique_ptr<Node> node_;
  std::unique_ptr<Client> clients_[2];
  KeyspaceId id_;
  const std::vector<Token> prompt_ = chain(1, 12);
};

TEST_P(ContextTest, AForkIsReadByWhoeverHasTheHandle) {
  auto prompt = prompt_;
  prompt.insert(prompt.end(), {5, 6, 7});  // what fills no block goes along
  const ContextHandle handle = publish(prompt, kFork);
  for (const size_t who : {1u, 1u, 0u}) {
    Result<Context> context = of(who).adopt(handle);
    ASSERT_TRUE(context) << context.error().reason;
    EXPECT_EQ(context->tokens, prompt);
    EXPECT_EQ(context->payload_bytes, AttachedUser::kPayloadBytes);
    EXPECT_EQ(context->hit.blocks_count(), 12u);
    EXPECT_EQ(context->hit.reason(), Reason::kPartialBlock);
    EXPECT_EQ(right_blocks(of(who), *context), 12u);
    EXPECT_EQ(context->keyspace, *of(who).open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes)));
    // It goes on, and the others' context stays as it is.
    auto longer = prompt_;
    const auto more = chain(static_cast<Token>(9000 + 100 * who), 2);
    longer.insert(longer.end(), more.begin(), more.end());
    put(of(who), context->keyspace, longer);
    EXPECT_EQ(of(who).peek(context->keyspace, longer), longer.size());
  }
  EXPECT_TRUE(of(1).unpublish(handle));
  EXPECT_EQ(code_of(1, handle), Code::kNotFound);
  EXPECT_EQ(of(0).unpublish(handle).error().code, Code::kNotFound);
}

TEST_P(ContextTest, OfTwoThatTakeItOneGetsIt) {
  for (int round = 0; round < 50; ++round) {
    const ContextHandle handle = publish(prompt_, kMove);
    std::atomic<int> ready{0};
    std::atomic<int> taken{0};
    std::atomic<int> refused{0};
    std::vector<Thread> threads;
    for (size_t who = 0; who < 2; ++who) {
      threads.push_back(std::move(*start_thread("taker", [&, who] {
        for (++ready; ready < 2;)
          yield_thread();
        Result<Context> context = of(who).adopt(handle);
        if (context) taken += right_blocks(of(who), *context) == 12 ? 1 : 100;
        if (!context) refused += context.error().code == Code::kNotFound ? 1 : 100;
      })));
    }
    for (Thread& thread : threads)
      thread.join();
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(code_of(0, handle), Code::kNotFound);
  }
}

TEST_P(ContextTest, WhatCannotBePublishedIsRefused) {
  const auto refusal = [&](KeyspaceId id, std::span<const Token> prompt, const ContextTerms& terms) {
    const auto handle = of(0).publish(id, prompt, terms);
    return handle ? Code::kOk : handle.error().code;
  };
  EXPECT_EQ(refusal(id_, chain(7000, 3), kFork), Code::kFailedPrecondition);
  EXPECT_EQ(refusal(id_, std::span(prompt_).first(15), kFork), Code::kFailedPrecondition);
  EXPECT_EQ(refusal(id_, {}, kFork), Code::kFailedPrecondition);
  EXPECT_EQ(refusal(id_, prompt_, {.lifetime_ns = 0}), Code::kInvalidArgument);
  EXPECT_EQ(refusal(id_, prompt_, {.lifetime_ns = 600'000'000'001}), Code::kInvalidArgument);
  EXPECT_EQ(refusal(id_, prompt_, {.lifetime_ns = 600'000'000'000}), Code::kOk);
  EXPECT_NE(refusal({}, prompt_, kFork), Code::kOk);
  EXPECT_EQ(code_of(1, {}), Code::kNotFound);
  EXPECT_EQ(code_of(1, {1, 2}), Code::kNotFound);
  for (int i = 1; i < 256; ++i)
    publish(prompt_, kFork);
  EXPECT_EQ(refusal(id_, prompt_, kFork), Code::kResourceExhausted);
}

TEST_P(ContextTest, EndsWithItsLifetime) {
  const ContextHandle handle = publish(prompt_, {.lifetime_ns = kShort});
  Result<Context> context = of(1).adopt(handle);
  EXPECT_TRUE(comes_true([&] { return code_of(1, handle) == Code::kNotFound; }));
  // Who has it keeps it.
  EXPECT_EQ(context ? right_blocks(of(1), *context) : 12u, 12u);
}

// What is over is in nobody's way, though nobody asks for a context any more.
TEST_P(ContextTest, ItsRoomIsThereAgain) {
  const auto first = chain(50'000, 1500);
  const auto second = chain(500'000, 1500);
  put(of(0), id_, first);
  ASSERT_EQ(of(0).peek(id_, first), first.size());
  publish(first, {.lifetime_ns = 10 * kShort});
  const auto store = [&] {
    Result<Draft> draft = of(0).reserve(id_, second, static_cast<uint32_t>(of(0).peek(id_, second) / 16));
    if (draft) of(0).commit(std::move(*draft));
    return of(0).peek(id_, second) == second.size();
  };
  EXPECT_FALSE(store()) << "it keeps more than half of the memory";
  EXPECT_TRUE(comes_true(store));
}

INSTANTIATE_TEST_SUITE_P(All, ContextTest, testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "attached" : "embedded"); });

// --- clients of a node

class AttachedContext : public testing::Test {
 protected:
  AttachedContext() { set_log_level(LogLevel::kSilent); }

  std::string socket() const { return folder_.path("run/node.sock"); }
  std::unique_ptr<Node> start(uint64_t pinned_bytes_max = 0) {
    NodeOptions options{.socket_path = socket(), .memory_bytes = 8 * kMiB, .tenant = "red"};
    options.domains.push_back({.tenant = "blue", .memory_bytes = 8 * kMiB});
    options.pinned_bytes_max = pinned_bytes_max;
    options.pinned_grace_ns = kShort;
    return std::move(*Node::start(std::move(options), *counters_));
  }
  std::unique_ptr<AttachedUser> user(const std::string& tenant = "red") const {
    return std::make_unique<AttachedUser>(socket(), "a", kMiB, tenant, VerifyPolicy::kAlways);
  }
  ContextHandle publish(AttachedUser& from, const ContextTerms& terms) {
    const auto handle = from.client->publish(from.id, prompt_, terms);
    EXPECT_TRUE(handle) << handle.error().reason;
    return handle ? *handle : ContextHandle();
  }
  static Code code_of(AttachedUser& who, const ContextHandle& handle) {
    const auto context = who.client->adopt(handle);
    return context ? Code::kOk : context.error().code;
  }
  static void end(std::unique_ptr<AttachedUser>& who) {
    who->hit = Hit();
    who.reset();
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  const std::vector<Token> prompt_ = chain(1, 12);
};

// Which byte of which file is there.
struct FilePlace {
  uint64_t inode = 0;
  uint64_t offset = 0;
  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

FilePlace file_place(const void* address) {
  const auto wanted = reinterpret_cast<uint64_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uint64_t first = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    uint64_t inode = 0;
    char dash = 0;
    std::string access;
    std::string device;
    fields >> std::hex >> first >> dash >> end >> access >> offset >> device >> std::dec >> inode;
    if (wanted >= first && wanted < end) return {inode, offset + wanted - first};
  }
  return {};
}

// Node, publisher and adopter have the same byte of the same memory, each mapped for itself.
TEST_F(AttachedContext, NoByteIsCopied) {
  const auto node = start();
  const auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kFork);
  const uint64_t copied_before = block_bytes_copied_here();
  Result<Context> context = other->client->adopt(handle);
  ASSERT_TRUE(context) << context.error().reason;
  one->client->lookup(one->id, prompt_, one->hit);
  const Root root = *node->store_of("red")->open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes));
  StoredPrefix prefix;
  node->store_of("red")->lookup(root, prompt_, prefix);
  for (size_t block = 0; block < 12; ++block) {
    const auto theirs = other->client->read(context->hit, context->tokens, block);
    const auto ours = one->client->read(one->hit, prompt_, block);
    const auto nodes = node->store_of("red")->read(prefix, prompt_, static_cast<uint32_t>(block));
    ASSERT_TRUE(theirs && ours && nodes);
    EXPECT_NE(theirs->data(), ours->data());
    EXPECT_NE(file_place(theirs->data()).inode, 0u);
    EXPECT_EQ(file_place(theirs->data()), file_place(ours->data()));
    EXPECT_EQ(file_place(theirs->data()), file_place(nodes->data()));
  }
  EXPECT_EQ(block_bytes_copied_here(), copied_before);
  EXPECT_EQ(counters_->get(Counter::kHitCopiedBytes), 0u);
  prefix.release();
  one->hit.release();
}

TEST_F(AttachedContext, IsPinnedFromThePublisherToTheAdopter) {
  const auto node = start();
  Store& store = *node->store_of("red");
  auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, {.use = ContextUse::kMove, .outlives_publisher = true});
  end(one);
  EXPECT_TRUE(comes_true([&] { return node->clients_count() == 1; }));
  EXPECT_EQ(store.clear(), 0u) << "by the node";
  Result<Context> context = other->client->adopt(handle);
  ASSERT_TRUE(context) << context.error().reason;
  EXPECT_EQ(store.clear(), 0u) << "by the adopter";
  EXPECT_EQ(right_blocks(*other->client, *context), 12u);
  context->hit.release();
  EXPECT_EQ(store.clear(), 12u);
}

// From the publisher to the node to the adopter, beside somebody who forgets all that nobody pins, all the time.
TEST_F(AttachedContext, NobodyEvictsWhatIsHandedOver) {
  const auto node = start();
  Store& store = *node->store_of("red");
  const auto one = user();
  const auto other = user();
  std::atomic<bool> stop{false};
  Thread evictor = *start_thread("evictor", [&] {
    while (!stop)
      store.clear();
  });
  size_t handed_over = 0;
  for (const uint64_t began = monotonic_now_ns(); handed_over < 300 && monotonic_now_ns() < began + kPatienceNs;) {
    one->put(prompt_);
    if (one->get(prompt_) < 12) continue;
    const auto handle = one->client->publish(one->id, prompt_, kMove);
    const bool has_all = one->client->peek(one->id, prompt_) == prompt_.size();
    one->hit.release();
    // A slot does not keep the evictor from making blocks unfindable before the node looks.
    if (!handle || !has_all) continue;
    Result<Context> context = other->client->adopt(*handle);
    ASSERT_TRUE(context) << context.error().reason;
    const size_t blocks = context->hit.blocks_count();
    EXPECT_EQ(right_blocks(*other->client, *context), blocks);
    EXPECT_EQ(blocks, 12u);
    handed_over += blocks == 12;
    if (HasFailure()) break;
  }
  stop = true;
  evictor.join();
  EXPECT_EQ(handed_over, 300u);
}

// Others leave memory for the tier, what is published does not.
TEST_F(AttachedContext, StaysInMemory) {
  NodeOptions options{.socket_path = socket(), .memory_bytes = 4 * kMiB, .tenant = "red"};
  options.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 * kMiB});
  options.tiering.admission.unused_wait_ns = 0;
  const auto node = std::move(*Node::start(std::move(options), *counters_));
  const auto one = user();
  const auto other = user();
  const auto unpublished = chain(90'000, 12);
  one->put(prompt_);
  one->put(unpublished);
  const ContextHandle handle = publish(*one, kFork);
  for (Token i = 1; i < 16; ++i) {
    node->store().flush(monotonic_now_ns() + kPatienceNs);
    one->put(chain(100'000 + i * 1000, 40));
  }
  EXPECT_EQ(other->get(unpublished), 12u);
  EXPECT_GT(other->hit.loaded_count(), 0u) << "it came from the tier";
  Result<Context> context = other->client->adopt(handle);
  ASSERT_TRUE(context) << context.error().reason;
  EXPECT_EQ(right_blocks(*other->client, *context), 12u);
  EXPECT_EQ(context->hit.loaded_count(), 0u);
  other->hit.release();
}

TEST_F(AttachedContext, EndsWithThePublishersSession) {
  const auto node = start();
  auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle owned = publish(*one, kFork);
  EXPECT_EQ(code_of(*other, owned), Code::kOk);
  end(one);
  EXPECT_TRUE(comes_true([&] { return code_of(*other, owned) == Code::kNotFound; }));
  EXPECT_EQ(node->store_of("red")->clear(), 12u);
}

// The node looks at the time by itself, too.
TEST_F(AttachedContext, ALifetimeEndsWhereNobodyAsks) {
  const auto node = start();
  const auto one = user();
  one->put(prompt_);
  publish(*one, {.lifetime_ns = kShort, .outlives_publisher = true});
  EXPECT_TRUE(comes_true([&] { return node->store_of("red")->clear() == 12; }));
}

// Whatever is wrong with a handle, the answer is the same to the byte.
TEST_F(AttachedContext, HandlesOfOthersAreNone) {
  const auto node = start();
  const auto red = user("red");
  const auto blue = user("blue");
  red->put(prompt_);
  const ContextHandle handle = publish(*red, kFork);
  const ContextHandle gone = publish(*red, kFork);
  EXPECT_TRUE(red->client->unpublish(gone));
  RawClient red_raw(socket(), "red");
  RawClient blue_raw(socket(), "blue");
  const AnyFrame unknown = red_raw.ask(AdoptFrame{{1, 2}}).frame;
  EXPECT_EQ(std::get<ErrorFrame>(unknown).code, Code::kNotFound);
  EXPECT_EQ(blue_raw.ask(AdoptFrame{handle}).frame, unknown);
  EXPECT_EQ(blue_raw.ask(UnpublishFrame{handle}).frame, unknown);
  EXPECT_EQ(red_raw.ask(AdoptFrame{gone}).frame, unknown);
  EXPECT_EQ(red_raw.ask(UnpublishFrame{gone}).frame, unknown);
  EXPECT_EQ(code_of(*blue, handle), Code::kNotFound);
  EXPECT_EQ(blue->client->unpublish(handle).error().code, Code::kNotFound);
  EXPECT_EQ(blue_raw.code_of(EndAdoptionFrame{.adoption = 1, .keeps = true}), Code::kNotFound);
  EXPECT_EQ(code_of(*red, handle), Code::kOk);
}

// The tokens come in memory that nobody can change, of its own for each who asks.
TEST_F(AttachedContext, TheTokensAreSealed) {
  const auto node = start();
  const auto one = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kFork);
  RawClient raw(socket(), "red");
  const auto first = raw.ask(AdoptFrame{handle});
  const auto second = raw.ask(AdoptFrame{handle});
  ASSERT_TRUE(std::holds_alternative<ContextFrame>(first.frame) && std::holds_alternative<ContextFrame>(second.frame));
  const uint64_t bytes = std::get<ContextFrame>(first.frame).tokens_count * sizeof(Token);
  EXPECT_EQ(bytes, prompt_.size() * sizeof(Token));
  for (const std::string& way : ways_to_change(first.descriptors[0], bytes))
    ADD_FAILURE() << way;
  EXPECT_NE(file_number(first.descriptors[0].number()), file_number(second.descriptors[0].number()));
}

// Who is gone in the middle has taken nothing.
TEST_F(AttachedContext, AnAdopterThatEndsInTheMiddleLeavesItThere) {
  const auto node = start();
  const auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kMove);
  {
    RawClient raw(socket(), "red");
    EXPECT_TRUE(std::holds_alternative<ContextFrame>(raw.ask(AdoptFrame{handle}).frame));
    EXPECT_EQ(code_of(*other, handle), Code::kNotFound) << "somebody is about to keep it";
    EXPECT_TRUE(one->client->unpublish({1, 2}).error().code == Code::kNotFound);
  }
  Result<Context> context = fail(Code::kUnknown, "");
  EXPECT_TRUE(comes_true([&] {
    context = other->client->adopt(handle);
    return context.has_value();
  }));
  EXPECT_EQ(context ? right_blocks(*other->client, *context) : 0u, 12u);
  EXPECT_EQ(code_of(*one, handle), Code::kNotFound);
}

// Who asks and never says that it has done so holds what it asked for, for its own quota and as long as its session.
TEST_F(AttachedContext, AnAdopterThatNeverEndsHoldsItForItself) {
  const auto node = start();
  Store& store = *node->store_of("red");
  auto one = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kMove);
  auto raw = std::make_unique<RawClient>(socket(), "red");
  EXPECT_TRUE(std::holds_alternative<ContextFrame>(raw->ask(AdoptFrame{handle}).frame));
  end(one);
  EXPECT_TRUE(comes_true([&] { return node->clients_count() == 1; }));
  EXPECT_EQ(store.clear(), 0u);
  for (int i = 0; i < 16; ++i)
    raw->ask(AdoptFrame{handle});
  raw.reset();
  EXPECT_TRUE(comes_true([&] { return store.clear() == 12; }));
}

TEST_F(AttachedContext, WithoutASlotNothingIsTaken) {
  const auto node = start();
  const auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kMove);
  std::vector<Hit> hits(64);
  for (Hit& hit : hits)
    other->client->lookup(other->id, prompt_, hit);
  EXPECT_EQ(code_of(*other, handle), Code::kResourceExhausted);
  hits.clear();
  EXPECT_EQ(code_of(*other, handle), Code::kOk);
}

// What it publishes counts like what it holds, and the same block once.
TEST_F(AttachedContext, CountsAgainstThePublishersQuota) {
  const auto node = start(50 * 3200);
  const auto one = user();
  const auto other = user();
  const auto long_prompt = chain(50'000, 40);
  one->put(long_prompt);
  one->put(prompt_);
  EXPECT_EQ(one->get(long_prompt), 40u);
  const auto handle = one->client->publish(one->id, long_prompt, kFork);
  ASSERT_TRUE(handle) << "it holds them already";
  EXPECT_EQ(one->client->publish(one->id, prompt_, kFork).error().code, Code::kResourceExhausted);
  EXPECT_EQ(code_of(*other, *handle), Code::kOk) << "what was there is still there";
  const auto nobodys = one->client->publish(one->id, long_prompt, {.outlives_publisher = true});
  EXPECT_TRUE(nobodys);
  EXPECT_EQ(other->client->publish(other->id, prompt_, {.outlives_publisher = true}).error().code,
            Code::kResourceExhausted)
      << "all that outlives its publisher has one quota";
  EXPECT_TRUE(one->client->unpublish(*handle));
  one->hit.release();
  EXPECT_TRUE(one->client->publish(one->id, prompt_, kFork));
}

// More than it may, by a hit beside what it has published: it is dropped, and with it what it owns.
TEST_F(AttachedContext, WhoKeepsTooMuchLosesItsContexts) {
  const auto node = start(50 * 3200);
  const auto one = user();
  const auto other = user();
  const auto long_prompt = chain(50'000, 40);
  one->put(long_prompt);
  one->put(prompt_);
  const auto handle = one->client->publish(one->id, long_prompt, kFork);
  ASSERT_TRUE(handle);
  one->client->lookup(one->id, prompt_, one->hit);
  EXPECT_TRUE(comes_true([&] { return node->over_quota_count() == 1; }));
  EXPECT_EQ(code_of(*other, *handle), Code::kNotFound);
  EXPECT_EQ(node->store_of("red")->clear(), 52u);
  one->hit.release();
}

// What does not verify goes, whoever keeps it, and the adopter is told why there is less.
TEST_F(AttachedContext, WhatIsGoneMeanwhileIsNotInTheHit) {
  const auto node = start();
  const auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, kFork);
  Store& store = *node->store_of("red");
  const Root root = *store.open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes));
  StoredPrefix prefix;
  store.lookup(root, prompt_, prefix);
  const auto bytes = store.read(prefix, prompt_, 5);
  ASSERT_TRUE(bytes);
  const_cast<std::byte&>((*bytes)[100]) ^= std::byte{4};
  prefix.release();
  one->client->lookup(one->id, prompt_, one->hit);
  EXPECT_EQ(one->client->read(one->hit, prompt_, 5).error().code, Code::kDataLoss);
  one->hit.release();
  Result<Context> context = other->client->adopt(handle);
  ASSERT_TRUE(context) << context.error().reason;
  EXPECT_EQ(context->tokens, prompt_);
  EXPECT_EQ(context->hit.blocks_count(), 5u);
  EXPECT_NE(context->hit.reason(), Reason::kFull);
  EXPECT_EQ(right_blocks(*other->client, *context), 5u);
  context->hit.release();
  EXPECT_TRUE(one->client->unpublish(handle));
  store.clear();
  EXPECT_EQ(store.slab_usage().stored_bytes, 0u);
}

TEST_F(AttachedContext, EndsWithTheNode) {
  auto node = start();
  const auto one = user();
  const auto other = user();
  one->put(prompt_);
  const ContextHandle handle = publish(*one, {.outlives_publisher = true});
  node.reset();
  EXPECT_EQ(code_of(*other, handle), Code::kUnavailable);
  EXPECT_EQ(other->client->unpublish(handle).error().code, Code::kUnavailable);
  EXPECT_EQ(one->client->publish(one->id, prompt_, kFork).error().code, Code::kUnavailable);
  node = start();
  EXPECT_TRUE(comes_true([&] { return code_of(*other, handle) != Code::kUnavailable; }));
  EXPECT_EQ(code_of(*other, handle), Code::kNotFound);
}

TEST_F(AttachedContext, NumbersThatMakeNoSenseAreRefused) {
  const auto node = start();
  RawClient raw(socket(), "red");
  const Keyspace keyspace = keyspace_named("a");
  const auto geometry = encode_geometry(block_of(AttachedUser::kPayloadBytes));
  const PublishFrame sound{.keyspace = {keyspace.encoding().begin(), keyspace.encoding().end()},
                           .geometry = {geometry.begin(), geometry.end()},
                           .tokens = {0, 16}};
  EXPECT_EQ(raw.code_of(sound), Code::kFailedPrecondition) << "nothing is stored";
  const auto with = [&](const auto& change) {
    PublishFrame frame = sound;
    change(frame);
    return raw.code_of(frame);
  };
  EXPECT_EQ(with([](auto& frame) { frame.keyspace.pop_back(); }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& frame) { frame.keyspace.clear(); }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& frame) { frame.geometry.clear(); }), Code::kInvalidArgument);
  for (const StagedTokens tokens :
       {StagedTokens{kMiB, 16}, StagedTokens{UINT64_MAX, 16}, StagedTokens{0, UINT32_MAX}, StagedTokens{1, 16}}) {
    EXPECT_NE(with([&](auto& frame) { frame.tokens = tokens; }), Code::kOk);
    EXPECT_NE(with([&](auto& frame) { frame.tokens = tokens; }), Code::kUnavailable) << "the session goes on";
  }
  EXPECT_EQ(with([](auto& frame) { frame.tokens = {}; }), Code::kFailedPrecondition);
  EXPECT_EQ(raw.code_of(EndAdoptionFrame{.adoption = 0, .keeps = true}), Code::kNotFound);
  EXPECT_EQ(raw.code_of(EndAdoptionFrame{.adoption = UINT64_MAX}), Code::kNotFound);
  // Frames that only a node sends.
  EXPECT_FALSE(raw.ask(PublishedFrame{}));
}

}  // namespace
}  // namespace rhizome
