// What clients of the C interface do with one another: announcing, waiting, and handing contexts over.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rhizome/rhizome.h>

#include "client/c/c_interface_fixture.h"
#include "machine/clock.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kLong = 60'000'000'000;
constexpr uint64_t kShort = 20'000'000;

// Two who share a cache: one client, or two of a node.
class CSharing : public testing::TestWithParam<bool> {
 protected:
  CSharing() {
    if (GetParam()) {
      const std::string socket = folder_.path("run/node.sock");
      node_ = std::move(*Node::start({.socket_path = socket, .memory_bytes = 8 * kTestMiB}, *counters_));
      for (auto& client : clients_)
        client = attach_client(socket);
    } else {
      clients_[0] = clients_[1] = open_embedded_client();
    }
    for (size_t i = 0; i < 2; ++i)
      users_[i] = std::make_unique<CacheUser>(clients_[i]);
  }
  ~CSharing() override {
    for (auto& user : users_)
      user.reset();
    EXPECT_EQ(rhizome_client_close(clients_[0]), RHIZOME_OK);
    EXPECT_EQ(GetParam() ? rhizome_client_close(clients_[1]) : RHIZOME_OK, RHIZOME_OK);
  }

  rhizome_announcement* announce(size_t who, std::span<const Token> prompt, size_t first = 0) {
    rhizome_announcement* made = nullptr;
    EXPECT_EQ(rhizome_announce(users_[who]->keyspace, prompt.data(), prompt.size(), first, SIZE_MAX, kLong, &made,
                               told_.get()),
              RHIZOME_OK)
        << told_.message();
    return made;
  }
  size_t wait(size_t who, std::span<const Token> prompt, size_t more_than, uint64_t wait_ns, int32_t* is_computed) {
    size_t blocks = SIZE_MAX;
    EXPECT_EQ(rhizome_wait(users_[who]->keyspace, prompt.data(), prompt.size(), more_than, wait_ns, &blocks,
                           is_computed, nullptr),
              RHIZOME_OK);
    return blocks;
  }
  rhizome_code publish(const rhizome_publish_options& options, rhizome_context_handle& handle) {
    return rhizome_publish(users_[0]->keyspace, prompt_.data(), prompt_.size(), &options, &handle, told_.get());
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  std::unique_ptr<Node> node_;
  rhizome_client* clients_[2] = {};
  std::unique_ptr<CacheUser> users_[2];
  Told told_;
  const std::vector<Token> prompt_ = blocks_of({1, 2, 3, 4});
};

TEST_P(CSharing, OneComputesAndTheOtherWaits) {
  rhizome_announcement* const ours = announce(0, prompt_);
  EXPECT_EQ(rhizome_announcement_is_ours(ours), 1);
  EXPECT_EQ(rhizome_announcement_is_others(ours), 0);
  EXPECT_EQ(rhizome_announcement_end_block(ours), 4u);
  rhizome_announcement* const theirs = announce(1, prompt_);
  EXPECT_EQ(rhizome_announcement_is_ours(theirs), 0);
  EXPECT_EQ(rhizome_announcement_is_others(theirs), 1);
  EXPECT_EQ(rhizome_announcement_withdraw(theirs), RHIZOME_OK);
  int32_t is_computed = 0;
  EXPECT_EQ(wait(1, prompt_, 0, kShort, &is_computed), 0u);
  EXPECT_EQ(is_computed, 1);
  std::atomic<size_t> seen{0};
  Thread waiter = *start_thread("waiter", [&] {
    int32_t still = 0;
    seen = wait(1, prompt_, 0, kLong, &still);
  });
  EXPECT_EQ(users_[0]->put(std::span(prompt_).first(32)), 2u);
  waiter.join();
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(rhizome_announcement_withdraw(ours), RHIZOME_OK);
  EXPECT_EQ(rhizome_announcement_withdraw(ours), RHIZOME_INVALID_ARGUMENT);
  EXPECT_EQ(rhizome_announcement_withdraw(nullptr), RHIZOME_OK);
  EXPECT_EQ(wait(1, prompt_, 2, UINT64_MAX, &is_computed), 2u) << "nobody computes";
  EXPECT_EQ(is_computed, 0);
  for (const size_t many : {size_t{4}, size_t{1} << 32, SIZE_MAX})
    EXPECT_EQ(wait(1, prompt_, many, UINT64_MAX, nullptr), 2u);
  // All of it is there: neither.
  rhizome_announcement* const none = announce(1, std::span(prompt_).first(32));
  EXPECT_EQ(rhizome_announcement_is_ours(none) + rhizome_announcement_is_others(none), 0);
  EXPECT_EQ(rhizome_announcement_withdraw(none), RHIZOME_OK);
}

TEST_P(CSharing, AContextIsHandedOver) {
  users_[0]->put(prompt_);
  rhizome_publish_options options = RHIZOME_PUBLISH_OPTIONS_INIT;
  rhizome_context_handle fork = {};
  rhizome_context_handle move = {};
  ASSERT_EQ(publish(options, fork), RHIZOME_OK) << told_.message();
  options.use = RHIZOME_CONTEXT_MOVE;
  options.outlives_publisher = 1;
  options.lifetime_ns = kLong;
  ASSERT_EQ(publish(options, move), RHIZOME_OK) << told_.message();
  for (const rhizome_context_handle handle : {fork, fork, move}) {
    rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
    ASSERT_EQ(rhizome_adopt(clients_[1], &handle, &adopted, told_.get()), RHIZOME_OK) << told_.message();
    EXPECT_EQ(std::vector<Token>(adopted.tokens, adopted.tokens + adopted.tokens_count), prompt_);
    EXPECT_EQ(rhizome_hit_blocks_count(adopted.hit), 4u);
    EXPECT_EQ(rhizome_hit_reason(adopted.hit), RHIZOME_REASON_FULL);
    EXPECT_EQ(rhizome_keyspace_payload_bytes(adopted.keyspace), kTestPayloadBytes);
    std::swap(users_[1]->hit, adopted.hit);
    for (size_t block = 0; block < 4; ++block)
      EXPECT_TRUE(users_[1]->is_right(prompt_, block)) << block;
    std::swap(users_[1]->hit, adopted.hit);
    size_t found = 0;
    EXPECT_EQ(rhizome_peek(adopted.keyspace, adopted.tokens, adopted.tokens_count, &found, told_.get()), RHIZOME_OK);
    EXPECT_EQ(found, 64u);
    EXPECT_EQ(rhizome_keyspace_close(adopted.keyspace), RHIZOME_OK);
    EXPECT_EQ(adopted.tokens[63], prompt_[63]) << "the hit keeps them";
    EXPECT_EQ(rhizome_hit_release(adopted.hit), RHIZOME_OK);
  }
  rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
  expect_refused("it was moved", RHIZOME_NOT_FOUND,
                 [&](auto* error) { return rhizome_adopt(clients_[1], &move, &adopted, error); });
  EXPECT_EQ(rhizome_unpublish(clients_[1], &fork, told_.get()), RHIZOME_OK);
  expect_refused("it is unpublished", RHIZOME_NOT_FOUND,
                 [&](auto* error) { return rhizome_unpublish(clients_[0], &fork, error); });
  expect_refused("it is unpublished", RHIZOME_NOT_FOUND,
                 [&](auto* error) { return rhizome_adopt(clients_[1], &fork, &adopted, error); });
  EXPECT_TRUE(adopted.hit == nullptr && adopted.keyspace == nullptr && adopted.tokens == nullptr);
}

TEST_P(CSharing, WhatMakesNoSenseIsRefused) {
  users_[0]->put(prompt_);
  rhizome_context_handle handle = {1, 1};
  const auto refuses = [&](const char* what, rhizome_code code, const rhizome_publish_options& options) {
    expect_refused(what, code, [&](auto* error) {
      return rhizome_publish(users_[0]->keyspace, prompt_.data(), prompt_.size(), &options, &handle, error);
    });
    EXPECT_EQ(handle.high + handle.low, 0u);
  };
  rhizome_publish_options options = RHIZOME_PUBLISH_OPTIONS_INIT;
  options.use = 2;
  refuses("a use", RHIZOME_INVALID_ARGUMENT, options);
  options = RHIZOME_PUBLISH_OPTIONS_INIT;
  options.outlives_publisher = 2;
  refuses("neither yes nor no", RHIZOME_INVALID_ARGUMENT, options);
  options = RHIZOME_PUBLISH_OPTIONS_INIT;
  options.lifetime_ns = UINT64_MAX;
  refuses("a long lifetime", RHIZOME_INVALID_ARGUMENT, options);
  for (const size_t size : {size_t{0}, size_t{23}, SIZE_MAX}) {
    options = RHIZOME_PUBLISH_OPTIONS_INIT;
    options.struct_size = size;
    refuses("a wrong size", RHIZOME_INVALID_ARGUMENT, options);
    rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
    adopted.struct_size = size;
    if (size == SIZE_MAX) continue;
    const rhizome_context_handle none = {};
    expect_refused("a wrong size", RHIZOME_INVALID_ARGUMENT,
                   [&](auto* error) { return rhizome_adopt(clients_[1], &none, &adopted, error); });
  }
  options = RHIZOME_PUBLISH_OPTIONS_INIT;
  rhizome_keyspace* const keyspace = users_[0]->keyspace;
  rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
  size_t blocks = 0;
  rhizome_announcement* made = nullptr;
  const std::vector<std::function<rhizome_code(rhizome_error*)>> calls = {
      [&](auto* e) { return rhizome_publish(keyspace, prompt_.data(), 64, &options, nullptr, e); },
      [&](auto* e) { return rhizome_publish(keyspace, prompt_.data(), 64, nullptr, &handle, e); },
      [&](auto* e) { return rhizome_publish(keyspace, nullptr, 64, &options, &handle, e); },
      [&](auto* e) { return rhizome_publish(keyspace, prompt_.data(), SIZE_MAX, &options, &handle, e); },
      [&](auto* e) { return rhizome_adopt(clients_[0], &handle, nullptr, e); },
      [&](auto* e) { return rhizome_adopt(clients_[0], nullptr, &adopted, e); },
      [&](auto* e) { return rhizome_unpublish(clients_[0], nullptr, e); },
      [&](auto* e) { return rhizome_announce(keyspace, prompt_.data(), 64, 0, 4, 1, nullptr, e); },
      [&](auto* e) { return rhizome_announce(keyspace, nullptr, 64, 0, 4, 1, &made, e); },
      [&](auto* e) { return rhizome_wait(keyspace, nullptr, 64, 0, 1, &blocks, nullptr, e); },
      [&](auto* e) { return rhizome_wait(keyspace, prompt_.data(), 64, 0, 1, nullptr, nullptr, e); }};
  for (size_t i = 0; i < calls.size(); ++i)
    expect_refused(std::to_string(i).c_str(), RHIZOME_INVALID_ARGUMENT, calls[i]);
  const auto nothing = blocks_of({77});
  expect_refused("nothing is stored", RHIZOME_FAILED_PRECONDITION, [&](auto* error) {
    return rhizome_publish(keyspace, nothing.data(), nothing.size(), &options, &handle, error);
  });
  EXPECT_EQ(made, nullptr);
}

// A program that was compiled with a newer header has fields that are not known here.
TEST_P(CSharing, AStructOfANewerVersion) {
  users_[0]->put(prompt_);
  const rhizome_publish_options options = RHIZOME_PUBLISH_OPTIONS_INIT;
  rhizome_context_handle handle = {};
  ASSERT_EQ(publish(options, handle), RHIZOME_OK);
  struct Newer {
    rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
    uint64_t unknown = 7;
  } newer;
  newer.adopted.struct_size = sizeof newer;
  ASSERT_EQ(rhizome_adopt(clients_[1], &handle, &newer.adopted, told_.get()), RHIZOME_OK) << told_.message();
  EXPECT_EQ(newer.adopted.struct_size, sizeof newer);
  EXPECT_EQ(newer.adopted.tokens_count, 64u);
  EXPECT_EQ(newer.unknown, 7u);
  EXPECT_EQ(rhizome_hit_release(newer.adopted.hit), RHIZOME_OK);
  EXPECT_EQ(rhizome_keyspace_close(newer.adopted.keyspace), RHIZOME_OK);
}

INSTANTIATE_TEST_SUITE_P(All, CSharing, testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "attached" : "embedded"); });

}  // namespace
}  // namespace rhizome
