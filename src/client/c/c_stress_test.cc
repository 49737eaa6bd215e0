// The C interface from several threads at once.
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rhizome/rhizome.h>

#include "client/c/c_interface_fixture.h"
#include "machine/thread.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

// Two threads with a keyspace and hits of their own, on one client that is too small for all they store.
TEST(CStress, OneClientManyThreads) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  rhizome_client* const client = open_embedded_client(2 * kTestMiB);
  std::atomic<uint64_t> found{0};
  std::vector<Thread> threads;
  for (uint64_t number = 0; number < 3; ++number) {
    threads.push_back(std::move(*start_thread("user", [&, number] {
      std::mt19937_64 random(seed + number);
      CacheUser user(client, number == 2 ? "b" : "a");
      for (int i = 0; i < 300; ++i) {
        const auto prompt = blocks_of({static_cast<Token>(random() % 40), static_cast<Token>(random() % 40), 3, 4});
        found += user.get(prompt);
        user.put(prompt);
      }
      EXPECT_EQ(user.wrong, 0u);
    })));
  }
  threads.clear();
  EXPECT_GT(found, 0u);
  EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
}

// One hit and one draft in two hands: calls wait for one another, and only one of them ends a draft.
TEST(CStress, OneHandleTwoThreads) {
  rhizome_client* const client = open_embedded_client();
  {
    CacheUser user(client);
    const auto prompt = blocks_of({1, 2, 3});
    user.put(prompt);
    for (Token round = 10; round < 210; ++round) {
      const auto more = blocks_of({1, 2, 3, round});
      rhizome_draft* draft = nullptr;
      ASSERT_EQ(rhizome_reserve(user.keyspace, more.data(), more.size(), 0, &draft, nullptr), RHIZOME_OK);
      user.fill(draft, more);
      rhizome_hit* hit = nullptr;
      ASSERT_EQ(rhizome_lookup(user.keyspace, prompt.data(), prompt.size(), &hit, nullptr), RHIZOME_OK);
      std::atomic<int> ended{0};
      std::atomic<int> released{0};
      std::atomic<int> arrived{0};
      const auto work = [&] {
        const void* payload = nullptr;
        size_t bytes = 0;
        const rhizome_code read = rhizome_hit_read(hit, 2, &payload, &bytes, nullptr);
        EXPECT_TRUE(read == RHIZOME_OK || read == RHIZOME_INVALID_ARGUMENT);
        released += rhizome_hit_release(hit) == RHIZOME_OK;
        // As nearly at once as can be.
        ++arrived;
        for (int i = 0; arrived < 2; ++i) {
          if (i > 10'000) yield_thread();
        }
        ended += rhizome_draft_commit(draft, nullptr, nullptr) == RHIZOME_OK;
      };
      Thread other = std::move(*start_thread("other", work));
      work();
      other.join();
      EXPECT_EQ(ended, 1);
      EXPECT_EQ(released, 1);
      EXPECT_EQ(user.get(more), 4u);
    }
  }
  EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
}

// A client that one thread closes while another one uses it ends when that one is done.
TEST(CStress, ClosingBesideCalls) {
  for (int round = 0; round < 30; ++round) {
    rhizome_client* const client = open_embedded_client(2 * kTestMiB);
    std::atomic<bool> is_under_way{false};
    Thread other = std::move(*start_thread("user", [&] {
      const auto fields = test_fields();
      const rhizome_keyspace_options options = opaque_keyspace(fields);
      rhizome_code code = RHIZOME_OK;
      while (code == RHIZOME_OK) {
        rhizome_keyspace* keyspace = nullptr;
        code = rhizome_keyspace_open(client, &options, &keyspace, nullptr);
        is_under_way = true;
        const auto prompt = blocks_of({1, 2});
        size_t found = 0;
        if (code == RHIZOME_OK) {
          EXPECT_EQ(rhizome_peek(keyspace, prompt.data(), 32, &found, nullptr), RHIZOME_OK);
        }
        rhizome_keyspace_close(keyspace);
      }
      EXPECT_EQ(code, RHIZOME_INVALID_ARGUMENT);
    }));
    while (!is_under_way)
      yield_thread();
    EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
    other.join();
  }
}

}  // namespace
}  // namespace rhizome
