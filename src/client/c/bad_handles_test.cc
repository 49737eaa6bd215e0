// Every function of the C interface, with a handle that is none.
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <rhizome/rhizome.h>

#include "client/c/c_interface_fixture.h"
#include "client/c/handles.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

class BadHandles : public testing::Test {
 protected:
  void SetUp() override {
    user_ = std::make_unique<CacheUser>(client_);
    user_->put(prompt_);
    EXPECT_EQ(user_->get(prompt_), 2u);
  }
  void TearDown() override {
    EXPECT_EQ(user_->get(prompt_), 2u) << "nothing has happened to it";
    user_.reset();
    EXPECT_EQ(rhizome_client_close(client_), RHIZOME_OK);
  }

  // All functions, less those for which it is a handle of their kind.
  void try_all(void* handle, HandleKind own) {
    if (own != HandleKind::kClient) try_as_client(static_cast<rhizome_client*>(handle));
    if (own != HandleKind::kKeyspace) try_as_keyspace(static_cast<rhizome_keyspace*>(handle));
    if (own != HandleKind::kHit) try_as_hit(static_cast<rhizome_hit*>(handle));
    if (own != HandleKind::kDraft) try_as_draft(static_cast<rhizome_draft*>(handle));
    if (own != HandleKind::kAnnouncement) try_as_announcement(static_cast<rhizome_announcement*>(handle));
  }

  template <class Call>
  void refuses(const char* what, const Call& call) {
    expect_refused(what, RHIZOME_INVALID_ARGUMENT, call);
  }
  static rhizome_code closing(const void* handle) { return handle == nullptr ? RHIZOME_OK : RHIZOME_INVALID_ARGUMENT; }

  void try_as_client(rhizome_client* client) {
    const auto fields = test_fields();
    const rhizome_keyspace_options shape = opaque_keyspace(fields);
    rhizome_keyspace* opened = nullptr;
    refuses("stats", [&](auto* error) { return rhizome_client_stats(client, nullptr, 0, &size_, error); });
    refuses("flush", [&](auto* error) { return rhizome_client_flush(client, 0, error); });
    refuses("observe", [&](auto* error) { return rhizome_client_observe_compute(client, 1, 1, 1, error); });
    refuses("open", [&](auto* error) { return rhizome_keyspace_open(client, &shape, &opened, error); });
    EXPECT_EQ(opened, nullptr);
    rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
    const rhizome_context_handle context = {1, 2};
    refuses("adopt", [&](auto* error) { return rhizome_adopt(client, &context, &adopted, error); });
    EXPECT_TRUE(adopted.hit == nullptr && adopted.keyspace == nullptr);
    refuses("unpublish", [&](auto* error) { return rhizome_unpublish(client, &context, error); });
    EXPECT_EQ(rhizome_client_block_tokens(client), 0u);
    EXPECT_EQ(rhizome_client_close(client), closing(client));
  }

  void try_as_keyspace(rhizome_keyspace* keyspace) {
    rhizome_hit* found = nullptr;
    rhizome_draft* reserved = nullptr;
    refuses("look up", [&](auto* error) { return rhizome_lookup(keyspace, prompt_.data(), 32, &found, error); });
    refuses("peek", [&](auto* error) { return rhizome_peek(keyspace, prompt_.data(), 32, &size_, error); });
    refuses("reserve", [&](auto* error) { return rhizome_reserve(keyspace, prompt_.data(), 32, 0, &reserved, error); });
    EXPECT_TRUE(found == nullptr && reserved == nullptr);
    rhizome_announcement* announced = nullptr;
    const rhizome_publish_options terms = RHIZOME_PUBLISH_OPTIONS_INIT;
    rhizome_context_handle context = {};
    refuses("announce",
            [&](auto* error) { return rhizome_announce(keyspace, prompt_.data(), 32, 0, 2, 1, &announced, error); });
    EXPECT_EQ(announced, nullptr);
    refuses("wait", [&](auto* error) {
      return rhizome_wait(keyspace, prompt_.data(), 32, 0, UINT64_MAX, &size_, nullptr, error);
    });
    refuses("publish",
            [&](auto* error) { return rhizome_publish(keyspace, prompt_.data(), 32, &terms, &context, error); });
    EXPECT_EQ(context.high + context.low, 0u);
    EXPECT_EQ(rhizome_keyspace_payload_bytes(keyspace), 0u);
    EXPECT_EQ(rhizome_keyspace_close(keyspace), closing(keyspace));
  }

  void try_as_hit(rhizome_hit* hit) {
    const void* payload = nullptr;
    refuses("promote", [&](auto* error) { return rhizome_hit_promote(hit, 0, 1, &size_, error); });
    refuses("read", [&](auto* error) { return rhizome_hit_read(hit, 0, &payload, &size_, error); });
    if (rhizome_hit* again = hit; hit != nullptr) {
      refuses("use again",
              [&](auto* error) { return rhizome_lookup(user_->keyspace, prompt_.data(), 32, &again, error); });
      EXPECT_EQ(again, hit);
    }
    EXPECT_EQ(rhizome_hit_blocks_count(hit) + rhizome_hit_loaded_count(hit), 0u);
    EXPECT_EQ(rhizome_hit_reason(hit), RHIZOME_REASON_NONE);
    EXPECT_EQ(rhizome_hit_release(hit), closing(hit));
  }

  void try_as_draft(rhizome_draft* draft) {
    void* place = nullptr;
    refuses("payload", [&](auto* error) { return rhizome_draft_payload(draft, 0, &place, &size_, error); });
    refuses("commit", [&](auto* error) { return rhizome_draft_commit(draft, &size_, error); });
    EXPECT_EQ(rhizome_draft_first_block(draft) + rhizome_draft_blocks_count(draft), 0u);
    EXPECT_EQ(rhizome_draft_abort(draft), closing(draft));
  }

  void try_as_announcement(rhizome_announcement* announcement) {
    EXPECT_EQ(rhizome_announcement_is_ours(announcement) + rhizome_announcement_is_others(announcement), 0);
    EXPECT_EQ(rhizome_announcement_end_block(announcement), 0u);
    EXPECT_EQ(rhizome_announcement_withdraw(announcement), closing(announcement));
  }

  const std::vector<Token> prompt_ = blocks_of({1, 2});
  rhizome_client* const client_ = open_embedded_client();
  std::unique_ptr<CacheUser> user_;
  size_t size_ = 0;
};

TEST_F(BadHandles, NullOrMadeUp) {
  uint64_t something = 0x1234'5678'9abc'def1;
  for (void* const handle :
       {static_cast<void*>(nullptr), static_cast<void*>(&something), std::bit_cast<void*>(something),
        std::bit_cast<void*>(UINT64_MAX), std::bit_cast<void*>(uint64_t{0xd}), std::bit_cast<void*>(uint64_t{1} << 32)})
    try_all(handle, HandleKind{});
}

TEST_F(BadHandles, OfAnotherKind) {
  rhizome_draft* draft = nullptr;
  ASSERT_EQ(rhizome_reserve(user_->keyspace, prompt_.data(), 32, 0, &draft, nullptr), RHIZOME_OK);
  try_all(client_, HandleKind::kClient);
  try_all(user_->keyspace, HandleKind::kKeyspace);
  try_all(user_->hit, HandleKind::kHit);
  try_all(draft, HandleKind::kDraft);
  EXPECT_EQ(rhizome_draft_abort(draft), RHIZOME_OK);
  rhizome_announcement* announcement = nullptr;
  ASSERT_EQ(rhizome_announce(user_->keyspace, prompt_.data(), 32, 0, 2, 1, &announcement, nullptr), RHIZOME_OK);
  try_all(announcement, HandleKind::kAnnouncement);
  EXPECT_EQ(rhizome_announcement_withdraw(announcement), RHIZOME_OK);
}

TEST_F(BadHandles, Closed) {
  rhizome_client* const client = open_embedded_client();
  auto user = std::make_unique<CacheUser>(client);
  user->get(prompt_);
  rhizome_draft* draft = nullptr;
  ASSERT_EQ(rhizome_reserve(user->keyspace, prompt_.data(), 32, 0, &draft, nullptr), RHIZOME_OK);
  ASSERT_EQ(rhizome_draft_abort(draft), RHIZOME_OK);
  rhizome_announcement* announcement = nullptr;
  ASSERT_EQ(rhizome_announce(user->keyspace, prompt_.data(), 32, 0, 2, 1, &announcement, nullptr), RHIZOME_OK);
  ASSERT_EQ(rhizome_announcement_withdraw(announcement), RHIZOME_OK);
  const std::vector<void*> closed = {client, user->keyspace, user->hit, draft, announcement};
  user.reset();
  ASSERT_EQ(rhizome_client_close(client), RHIZOME_OK);
  for (void* const handle : closed)
    try_all(handle, HandleKind{});
}

}  // namespace
}  // namespace rhizome
