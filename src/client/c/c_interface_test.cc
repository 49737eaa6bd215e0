// Each function of the C interface: what it does, and what it says to arguments that make no sense.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rhizome/rhizome.h>

#include "client/c/c_interface_fixture.h"
#include "client/c/call.h"
#include "machine/temporary_folder.h"
#include "node/node.h"
#include "store/store_fixture.h"
#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

class CInterface : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(rhizome_client_close(client_), RHIZOME_OK); }

  rhizome_client* client_ = open_embedded_client();
  Told told_;
};

TEST_F(CInterface, StoresAndReads) {
  CacheUser user(client_);
  EXPECT_EQ(rhizome_client_block_tokens(client_), 16u);
  EXPECT_EQ(rhizome_keyspace_payload_bytes(user.keyspace), kTestPayloadBytes);
  const auto prompt = blocks_of({1, 2, 3, 4});
  EXPECT_EQ(user.get(prompt), 0u);
  EXPECT_EQ(rhizome_hit_reason(user.hit), RHIZOME_REASON_NEVER_STORED);
  EXPECT_STREQ(rhizome_reason_name(rhizome_hit_reason(user.hit)), "never_stored");
  EXPECT_EQ(user.put(prompt), 4u);
  EXPECT_EQ(user.put(prompt), 0u) << "all is there";
  EXPECT_EQ(user.get(prompt), 4u);
  EXPECT_EQ(rhizome_hit_blocks_count(user.hit), 4u);
  EXPECT_EQ(rhizome_hit_loaded_count(user.hit), 0u);
  EXPECT_EQ(rhizome_hit_reason(user.hit), RHIZOME_REASON_FULL);
  EXPECT_EQ(user.get(blocks_of({1, 2, 9})), 2u);
  EXPECT_EQ(rhizome_hit_reason(user.hit), RHIZOME_REASON_DIVERGED);
  const auto other = blocks_of({1, 2, 3, 9});
  size_t found = 7;
  EXPECT_EQ(rhizome_peek(user.keyspace, other.data(), other.size(), &found, told_.get()), RHIZOME_OK);
  EXPECT_EQ(found, 48u);
  EXPECT_EQ(user.wrong, 0u);
  EXPECT_EQ(rhizome_client_observe_compute(client_, 64, 0, 0.5, told_.get()), RHIZOME_OK);
  EXPECT_EQ(rhizome_client_flush(client_, UINT64_MAX, told_.get()), RHIZOME_OK);
}

TEST_F(CInterface, KeyspacesAreApart) {
  CacheUser one(client_, "a");
  CacheUser other(client_, "b");
  const auto prompt = blocks_of({1, 2});
  EXPECT_EQ(one.put(prompt), 2u);
  EXPECT_EQ(other.get(prompt), 0u);
  EXPECT_EQ(other.put(prompt), 2u);
  EXPECT_EQ(one.get(prompt) + other.get(prompt), 4u);
  EXPECT_EQ(one.wrong + other.wrong, 0u);
  // One hit may be used for both.
  EXPECT_EQ(rhizome_lookup(other.keyspace, prompt.data(), prompt.size(), &one.hit, told_.get()), RHIZOME_OK);
  EXPECT_FALSE(one.is_right(prompt, 0)) << "these are the other's";
}

TEST_F(CInterface, AHandleKeepsWhatItWasMadeFrom) {
  rhizome_client* const client = open_embedded_client();
  auto user = std::make_unique<CacheUser>(client);
  const auto prompt = blocks_of({1, 2, 3});
  user->put(prompt);
  EXPECT_EQ(user->get(prompt), 3u);
  rhizome_draft* draft = nullptr;
  const auto more = blocks_of({1, 2, 3, 4});
  ASSERT_EQ(rhizome_reserve(user->keyspace, more.data(), more.size(), 0, &draft, told_.get()), RHIZOME_OK);
  EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
  EXPECT_EQ(rhizome_client_block_tokens(client), 0u);
  EXPECT_TRUE(user->is_right(prompt, 2));
  user->fill(draft, more);
  size_t visible = 0;
  EXPECT_EQ(rhizome_draft_commit(draft, &visible, told_.get()), RHIZOME_OK);
  EXPECT_EQ(visible, 1u);
  EXPECT_EQ(user->get(more), 4u);
  // The keyspace first: the hit keeps the cache by itself.
  EXPECT_EQ(rhizome_keyspace_close(user->keyspace), RHIZOME_OK);
  EXPECT_EQ(rhizome_keyspace_payload_bytes(user->keyspace), 0u);
  EXPECT_TRUE(user->is_right(more, 3));
  EXPECT_EQ(user->wrong, 0u);
}

TEST_F(CInterface, ADraftIsAbortedOrCommittedOnce) {
  CacheUser user(client_);
  const auto prompt = blocks_of({1, 2});
  rhizome_draft* draft = nullptr;
  ASSERT_EQ(rhizome_reserve(user.keyspace, prompt.data(), prompt.size(), 0, &draft, told_.get()), RHIZOME_OK);
  EXPECT_EQ(rhizome_draft_first_block(draft), 0u);
  EXPECT_EQ(rhizome_draft_blocks_count(draft), 2u);
  EXPECT_EQ(rhizome_draft_abort(draft), RHIZOME_OK);
  EXPECT_EQ(rhizome_draft_abort(draft), RHIZOME_INVALID_ARGUMENT);
  EXPECT_EQ(rhizome_draft_blocks_count(draft), 0u);
  EXPECT_EQ(user.get(prompt), 0u);
  EXPECT_EQ(user.put(prompt), 2u);
  // A draft of nothing is one, too.
  ASSERT_EQ(rhizome_reserve(user.keyspace, prompt.data(), prompt.size(), 0, &draft, told_.get()), RHIZOME_OK);
  EXPECT_EQ(rhizome_draft_first_block(draft), 2u);
  EXPECT_EQ(rhizome_draft_blocks_count(draft), 0u);
  size_t visible = 9;
  EXPECT_EQ(rhizome_draft_commit(draft, &visible, told_.get()), RHIZOME_OK);
  EXPECT_EQ(visible, 0u);
  expect_refused("a second commit", RHIZOME_INVALID_ARGUMENT,
                 [&](rhizome_error* error) { return rhizome_draft_commit(draft, &visible, error); });
}

// The same bytes in another order are another shape, and so another keyspace.
TEST_F(CInterface, ShapesOfBlocks) {
  const auto fields = test_fields();
  rhizome_keyspace_options options = RHIZOME_KEYSPACE_OPTIONS_INIT;
  options.fields = fields.data();
  options.fields_count = fields.size();
  options.element_type = RHIZOME_ELEMENT_F16;
  options.layers_count = 3;
  options.kv_heads_count = 2;
  options.key_width = 8;
  options.value_width = 4;
  const auto prompt = blocks_of({1});
  for (const uint32_t layout :
       {RHIZOME_LAYOUT_LAYER_HALF_TOKEN, RHIZOME_LAYOUT_LAYER_TOKEN_HALF, RHIZOME_LAYOUT_HALF_LAYER_TOKEN}) {
    options.layout = layout;
    rhizome_keyspace* keyspace = nullptr;
    ASSERT_EQ(rhizome_keyspace_open(client_, &options, &keyspace, told_.get()), RHIZOME_OK) << told_.message();
    EXPECT_EQ(rhizome_keyspace_payload_bytes(keyspace), 3u * 16 * 2 * (8 + 4) * 2);
    size_t found = 1;
    EXPECT_EQ(rhizome_peek(keyspace, prompt.data(), prompt.size(), &found, told_.get()), RHIZOME_OK);
    EXPECT_EQ(found, 0u);
    rhizome_draft* draft = nullptr;
    ASSERT_EQ(rhizome_reserve(keyspace, prompt.data(), prompt.size(), 0, &draft, told_.get()), RHIZOME_OK);
    EXPECT_EQ(rhizome_draft_commit(draft, nullptr, told_.get()), RHIZOME_OK);
    EXPECT_EQ(rhizome_keyspace_close(keyspace), RHIZOME_OK);
  }
}

TEST_F(CInterface, KeyspacesThatMakeNoSense) {
  const auto complete = test_fields();
  auto fields = complete;
  rhizome_keyspace_options options = RHIZOME_KEYSPACE_OPTIONS_INIT;
  rhizome_keyspace* keyspace = nullptr;
  const auto expect = [&](const char* what, rhizome_code code) {
    options.fields = fields.data();
    options.fields_count = fields.size();
    expect_refused(what, code,
                   [&](rhizome_error* error) { return rhizome_keyspace_open(client_, &options, &keyspace, error); });
    EXPECT_EQ(keyspace, nullptr);
    options = opaque_keyspace(complete);
    fields = complete;
  };
  expect("no shape", RHIZOME_INVALID_ARGUMENT);
  for (const uint32_t missing : {RHIZOME_FIELD_ENGINE, RHIZOME_FIELD_WEIGHTS, RHIZOME_FIELD_LAYOUT,
                                 RHIZOME_FIELD_MEMORY_CLASS, RHIZOME_FIELD_ROPE, RHIZOME_FIELD_ATTENTION}) {
    std::erase_if(fields, [&](const rhizome_keyspace_field& field) { return field.tag == missing; });
    expect("a field is missing", RHIZOME_FAILED_PRECONDITION);
  }
  fields.push_back(fields.front());
  expect("a field twice", RHIZOME_INVALID_ARGUMENT);
  for (const uint32_t tag : {0u, 16u, 64u, UINT32_MAX}) {
    fields.back().tag = tag;
    expect("an unknown tag", RHIZOME_INVALID_ARGUMENT);
  }
  fields.back().reserved = 1;
  expect("what is reserved", RHIZOME_INVALID_ARGUMENT);
  fields.back().bytes = nullptr;
  expect("bytes that are NULL", RHIZOME_INVALID_ARGUMENT);
  fields.back().bytes_count = UINT64_MAX;
  expect("a long field", RHIZOME_INVALID_ARGUMENT);
  fields.resize(1000, fields.front());
  expect("many fields", RHIZOME_INVALID_ARGUMENT);
  options.opaque_bytes = 0;
  expect("no payload", RHIZOME_INVALID_ARGUMENT);
  options.opaque_bytes = UINT32_MAX;
  expect("a payload that does not fit", RHIZOME_RESOURCE_EXHAUSTED);
  options.key_width = 1;
  expect("an opaque block with dimensions", RHIZOME_INVALID_ARGUMENT);
  options.layout = 256 + RHIZOME_LAYOUT_OPAQUE;
  expect("an unknown layout", RHIZOME_INVALID_ARGUMENT);
  options.element_type = 17;
  expect("an unknown element type", RHIZOME_INVALID_ARGUMENT);
  options.keys_before_rope = 2;
  expect("neither yes nor no", RHIZOME_INVALID_ARGUMENT);
  options.layout = RHIZOME_LAYOUT_LATENT;
  options.layers_count = options.kv_heads_count = options.key_width = options.value_width = UINT32_MAX;
  expect("large dimensions", RHIZOME_INVALID_ARGUMENT);
}

TEST_F(CInterface, OptionsOfOtherVersions) {
  struct Newer {
    rhizome_embedded_options options;
    uint64_t unknown;
  } newer = {embedded_options(), 0};
  newer.options.struct_size = sizeof newer;
  rhizome_client* client = nullptr;
  EXPECT_EQ(rhizome_client_open_embedded(&newer.options, &client, told_.get()), RHIZOME_OK) << told_.message();
  EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
  newer.unknown = 1;
  expect_refused("what is not known", RHIZOME_UNIMPLEMENTED,
                 [&](rhizome_error* error) { return rhizome_client_open_embedded(&newer.options, &client, error); });
  EXPECT_EQ(client, nullptr);
  for (const size_t size : {size_t{0}, size_t{1}, sizeof(rhizome_embedded_options) - 1, size_t{1} << 20, SIZE_MAX}) {
    rhizome_embedded_options options = embedded_options();
    options.struct_size = size;
    expect_refused("a wrong size", RHIZOME_INVALID_ARGUMENT,
                   [&](rhizome_error* error) { return rhizome_client_open_embedded(&options, &client, error); });
    rhizome_attached_options attached = RHIZOME_ATTACHED_OPTIONS_INIT;
    attached.socket_path = "none";
    attached.struct_size = std::min(size, size_t{4097});
    if (size >= sizeof attached && size < 4097) continue;
    expect_refused("a wrong size", RHIZOME_INVALID_ARGUMENT,
                   [&](rhizome_error* error) { return rhizome_client_attach(&attached, &client, error); });
    const auto fields = test_fields();
    rhizome_keyspace_options shape = opaque_keyspace(fields);
    shape.struct_size = size == sizeof(rhizome_embedded_options) - 1 ? sizeof shape - 1 : size;
    rhizome_keyspace* keyspace = nullptr;
    expect_refused("a wrong size", RHIZOME_INVALID_ARGUMENT,
                   [&](rhizome_error* error) { return rhizome_keyspace_open(client_, &shape, &keyspace, error); });
  }
}

// A struct that had fewer fields than today's leaves the others as they are by default.
TEST_F(CInterface, OptionsOfAnOlderVersion) {
  struct Known {
    size_t struct_size = sizeof(Known);
    uint64_t old_one = 1;
    uint64_t new_one = 2;
  };
  struct Older {
    size_t struct_size;
    uint64_t old_one;
  } const older = {sizeof older, 11};
  Known known;
  const auto bytes = std::as_writable_bytes(std::span(&known, 1));
  ASSERT_TRUE(copy_options(bytes, &older, sizeof older));
  EXPECT_EQ(known.old_one, 11u);
  EXPECT_EQ(known.new_one, 2u);
  EXPECT_EQ(copy_options(bytes, &older, sizeof older + 1).error().code, Code::kInvalidArgument);
}

TEST_F(CInterface, ErrorsOfAnySize) {
  struct Guarded {
    rhizome_error error = RHIZOME_ERROR_INIT;
    char behind = 'x';
  } guarded;
  const auto fail_with = [&](size_t size) {
    std::memset(&guarded.error, 'y', sizeof guarded.error);
    guarded.error.struct_size = size;
    return rhizome_client_open_embedded(nullptr, nullptr, &guarded.error);
  };
  for (const size_t size : {sizeof(rhizome_error), size_t{1} << 40, SIZE_MAX}) {
    EXPECT_EQ(fail_with(size), RHIZOME_INVALID_ARGUMENT);
    EXPECT_EQ(guarded.error.code, RHIZOME_INVALID_ARGUMENT);
    EXPECT_STREQ(guarded.error.message, "there is no room for the client");
    EXPECT_EQ(guarded.behind, 'x');
  }
  EXPECT_EQ(fail_with(16), RHIZOME_INVALID_ARGUMENT);
  EXPECT_STREQ(guarded.error.message, "the");
  EXPECT_EQ(guarded.error.message[4], 'y');
  for (const size_t size : {size_t{0}, size_t{15}}) {
    EXPECT_EQ(fail_with(size), RHIZOME_INVALID_ARGUMENT);
    EXPECT_EQ(guarded.error.message[0], 'y') << "nothing is written";
  }
  EXPECT_EQ(tell(told_.get(), Code::kUnknown, std::string(1000, 'z')), RHIZOME_UNKNOWN);
  EXPECT_EQ(told_.message().size(), sizeof guarded.error.message - 1);
  // What went well says so.
  EXPECT_EQ(rhizome_client_flush(client_, 0, told_.get()), RHIZOME_OK);
  EXPECT_EQ(told_.code(), RHIZOME_OK);
  EXPECT_EQ(told_.message(), "");
}

TEST_F(CInterface, NoExceptionCrosses) {
  const auto raise = [&](const std::exception_ptr& exception) {
    EXPECT_EQ(value_or(3, [&]() -> int { std::rethrow_exception(exception); }), 3);
    return answer(told_.get(), [&]() -> Status { std::rethrow_exception(exception); });
  };
  EXPECT_EQ(raise(std::make_exception_ptr(std::bad_alloc())), RHIZOME_RESOURCE_EXHAUSTED);
  EXPECT_EQ(told_.message(), "out of memory");
  EXPECT_EQ(raise(std::make_exception_ptr(std::runtime_error("why"))), RHIZOME_UNKNOWN);
  EXPECT_EQ(told_.message(), "why");
  EXPECT_EQ(raise(std::make_exception_ptr(1)), RHIZOME_UNKNOWN);
  EXPECT_FALSE(told_.message().empty());
}

TEST_F(CInterface, ClientsThatMakeNoSense) {
  rhizome_client* client = nullptr;
  const auto expect = [&](const char* what, const rhizome_embedded_options& options) {
    expect_refused(what, RHIZOME_INVALID_ARGUMENT,
                   [&](rhizome_error* error) { return rhizome_client_open_embedded(&options, &client, error); });
    EXPECT_EQ(client, nullptr) << what;
  };
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, UINT64_MAX, (uint64_t{16} << 40) + 1})
    expect("memory", embedded_options(bytes));
  rhizome_embedded_options options = embedded_options();
  options.block_tokens = 17;
  expect("a block size", options);
  options = embedded_options();
  options.disk_bytes = 1 << 20;
  expect("a disk that is nowhere", options);
  options.disk_directory = "";
  expect("a disk that is nowhere", options);
  options.disk_directory = "somewhere";
  options.disk_bytes = 0;
  expect("a disk of no size", options);
  expect_refused("no options", RHIZOME_INVALID_ARGUMENT,
                 [&](rhizome_error* error) { return rhizome_client_open_embedded(nullptr, &client, error); });
  options = embedded_options();
  options.verify = RHIZOME_VERIFY_ALWAYS + 1;
  expect("no policy", options);
}

TEST_F(CInterface, NodesThatAreNotThere) {
  rhizome_client* client = nullptr;
  rhizome_attached_options options = RHIZOME_ATTACHED_OPTIONS_INIT;
  const auto attach = [&](rhizome_error* error) { return rhizome_client_attach(&options, &client, error); };
  expect_refused("no socket", RHIZOME_INVALID_ARGUMENT, attach);
  const TemporaryFolder folder;
  const std::string nowhere = folder.path("none.sock");
  options.socket_path = nowhere.c_str();
  expect_refused("nobody there", RHIZOME_NOT_FOUND, attach);
  options.verify = RHIZOME_VERIFY_ALWAYS + 1;
  expect_refused("no policy", RHIZOME_INVALID_ARGUMENT, attach);
  options.verify = RHIZOME_VERIFY_ALWAYS;
  options.reserved = 1;
  expect_refused("what is reserved", RHIZOME_UNIMPLEMENTED, attach);
  options.reserved = 0;
  options.staging_bytes = UINT64_MAX;
  expect_refused("much staging memory", RHIZOME_INVALID_ARGUMENT, attach);
  options.staging_bytes = 0;
  options.reply_wait_ns = UINT64_MAX;
  expect_refused("a long wait", RHIZOME_NOT_FOUND, attach);
  const std::string too_long(1000, 'x');
  options.socket_path = too_long.c_str();
  EXPECT_NE(attach(told_.get()), RHIZOME_OK);
  EXPECT_EQ(client, nullptr);
}

TEST_F(CInterface, ACacheWithADisk) {
  const TemporaryFolder folder;
  const std::string directory = folder.path("blocks");
  const auto prompt = chain(1, 8);
  for (const size_t expected : {0u, 8u}) {
    rhizome_embedded_options options = embedded_options(16 * kTestMiB);
    options.disk_directory = directory.c_str();
    options.disk_bytes = 64 * kTestMiB;
    rhizome_client* client = nullptr;
    ASSERT_EQ(rhizome_client_open_embedded(&options, &client, told_.get()), RHIZOME_OK) << told_.message();
    {
      CacheUser user(client);
      EXPECT_EQ(user.get(prompt), expected);
      EXPECT_EQ(rhizome_hit_loaded_count(user.hit), expected);
      user.put(prompt);
      EXPECT_EQ(rhizome_client_flush(client, 10'000'000'000, told_.get()), RHIZOME_OK);
      EXPECT_EQ(user.wrong, 0u);
    }
    EXPECT_EQ(rhizome_client_close(client), RHIZOME_OK);
  }
}

TEST_F(CInterface, Stats) {
  CacheUser user(client_);
  user.put(blocks_of({1, 2, 3}));
  size_t needed = 0;
  EXPECT_EQ(rhizome_client_stats(client_, nullptr, 0, &needed, told_.get()), RHIZOME_OUT_OF_RANGE);
  ASSERT_GT(needed, 100u);
  std::string text(needed + 10, 'x');
  EXPECT_EQ(rhizome_client_stats(client_, text.data(), needed, &needed, told_.get()), RHIZOME_OK);
  EXPECT_EQ(text.find('\0'), needed - 1);
  EXPECT_EQ(text[needed], 'x');
  EXPECT_NE(text.find("\nrhizome_blocks_stored{tier=\"slab\"} 3\n"), std::string::npos) << text;
  text.assign(needed, 'x');
  EXPECT_EQ(rhizome_client_stats(client_, text.data(), 9, nullptr, told_.get()), RHIZOME_OUT_OF_RANGE);
  EXPECT_STREQ(text.c_str(), "rhizome_");
  EXPECT_EQ(rhizome_client_stats(client_, nullptr, 9, &needed, told_.get()), RHIZOME_INVALID_ARGUMENT);
}

TEST_F(CInterface, TokensThatMakeNoSense) {
  CacheUser user(client_);
  const auto prompt = blocks_of({1, 2});
  user.put(prompt);
  rhizome_draft* draft = nullptr;
  size_t found = 0;
  const auto all = [&](const char* what, const uint32_t* tokens, size_t count) {
    expect_refused(what, RHIZOME_INVALID_ARGUMENT,
                   [&](auto* error) { return rhizome_lookup(user.keyspace, tokens, count, &user.hit, error); });
    expect_refused(what, RHIZOME_INVALID_ARGUMENT,
                   [&](auto* error) { return rhizome_peek(user.keyspace, tokens, count, &found, error); });
    expect_refused(what, RHIZOME_INVALID_ARGUMENT,
                   [&](auto* error) { return rhizome_reserve(user.keyspace, tokens, count, 0, &draft, error); });
    EXPECT_EQ(draft, nullptr);
  };
  all("NULL", nullptr, 16);
  all("too many", prompt.data(), SIZE_MAX);
  EXPECT_EQ(user.get({}), 0u) << "no tokens at all are a miss";
  EXPECT_EQ(rhizome_peek(user.keyspace, nullptr, 0, &found, told_.get()), RHIZOME_OK);
  expect_refused("no whole block", RHIZOME_INVALID_ARGUMENT,
                 [&](auto* error) { return rhizome_reserve(user.keyspace, prompt.data(), 17, 0, &draft, error); });
  expect_refused("behind the end", RHIZOME_INVALID_ARGUMENT,
                 [&](auto* error) { return rhizome_reserve(user.keyspace, prompt.data(), 32, 3, &draft, error); });
  const auto other = blocks_of({7, 8});
  expect_refused("what is before is missing", RHIZOME_FAILED_PRECONDITION,
                 [&](auto* error) { return rhizome_reserve(user.keyspace, other.data(), 32, 1, &draft, error); });
  EXPECT_EQ(user.get(prompt), 2u);
}

TEST_F(CInterface, BlocksThatAreNotThere) {
  CacheUser user(client_);
  const auto prompt = blocks_of({1, 2});
  user.put(prompt);
  user.get(prompt);
  size_t bytes = 1;
  const void* payload = &bytes;
  for (const size_t block : {size_t{2}, size_t{UINT32_MAX} + 1, SIZE_MAX}) {
    expect_refused("no such block", RHIZOME_OUT_OF_RANGE,
                   [&](auto* error) { return rhizome_hit_read(user.hit, block, &payload, &bytes, error); });
    EXPECT_EQ(payload, nullptr);
    EXPECT_EQ(bytes, 0u);
  }
  size_t end = 0;
  EXPECT_EQ(rhizome_hit_promote(user.hit, SIZE_MAX, SIZE_MAX, &end, told_.get()), RHIZOME_OK);
  EXPECT_EQ(end, 2u);
  EXPECT_EQ(rhizome_hit_promote(user.hit, 2, 1, &end, told_.get()), RHIZOME_OK);
  EXPECT_EQ(end, 1u);
  rhizome_draft* draft = nullptr;
  const auto more = blocks_of({1, 2, 3});
  ASSERT_EQ(rhizome_reserve(user.keyspace, more.data(), more.size(), 0, &draft, told_.get()), RHIZOME_OK);
  void* place = nullptr;
  for (const size_t i : {size_t{1}, SIZE_MAX}) {
    expect_refused("no such block", RHIZOME_OUT_OF_RANGE,
                   [&](auto* error) { return rhizome_draft_payload(draft, i, &place, &bytes, error); });
    EXPECT_EQ(place, nullptr);
  }
  EXPECT_EQ(rhizome_draft_abort(draft), RHIZOME_OK);
}

TEST_F(CInterface, NoRoomForTheAnswer) {
  CacheUser user(client_);
  const auto prompt = blocks_of({1, 2});
  user.put(prompt);
  user.get(prompt);
  const auto fields = test_fields();
  const rhizome_keyspace_options shape = opaque_keyspace(fields);
  const rhizome_embedded_options options = embedded_options();
  size_t size = 0;
  const void* payload = nullptr;
  const std::vector<std::function<rhizome_code(rhizome_error*)>> calls = {
      [&](auto* e) { return rhizome_client_open_embedded(&options, nullptr, e); },
      [&](auto* e) { return rhizome_client_attach(nullptr, nullptr, e); },
      [&](auto* e) { return rhizome_keyspace_open(client_, &shape, nullptr, e); },
      [&](auto* e) { return rhizome_lookup(user.keyspace, prompt.data(), 32, nullptr, e); },
      [&](auto* e) { return rhizome_peek(user.keyspace, prompt.data(), 32, nullptr, e); },
      [&](auto* e) { return rhizome_reserve(user.keyspace, prompt.data(), 32, 0, nullptr, e); },
      [&](auto* e) { return rhizome_hit_promote(user.hit, 0, 1, nullptr, e); },
      [&](auto* e) { return rhizome_hit_read(user.hit, 0, nullptr, &size, e); },
      [&](auto* e) { return rhizome_hit_read(user.hit, 0, &payload, nullptr, e); },
      [&](auto* e) { return rhizome_draft_payload(nullptr, 0, nullptr, nullptr, e); }};
  for (size_t i = 0; i < calls.size(); ++i)
    expect_refused(std::to_string(i).c_str(), RHIZOME_INVALID_ARGUMENT, calls[i]);
  for (const double seconds : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_refused("no time", RHIZOME_INVALID_ARGUMENT,
                   [&](auto* e) { return rhizome_client_observe_compute(client_, 1, 1, seconds, e); });
  }
}

TEST_F(CInterface, AnotherClientsHit) {
  rhizome_client* const other_client = open_embedded_client();
  {
    CacheUser user(client_);
    CacheUser other(other_client);
    const auto prompt = blocks_of({1});
    user.get(prompt);
    expect_refused("another client's", RHIZOME_INVALID_ARGUMENT,
                   [&](auto* error) { return rhizome_lookup(other.keyspace, prompt.data(), 16, &user.hit, error); });
  }
  EXPECT_EQ(rhizome_client_close(other_client), RHIZOME_OK);
}

TEST_F(CInterface, Names) {
  EXPECT_STREQ(rhizome_code_name(RHIZOME_OK), "OK");
  EXPECT_STREQ(rhizome_code_name(RHIZOME_DATA_LOSS), "DATA_LOSS");
  for (const int32_t unknown : {-1, 17, INT32_MAX, INT32_MIN}) {
    EXPECT_STREQ(rhizome_code_name(unknown), "UNKNOWN");
    EXPECT_STREQ(rhizome_reason_name(unknown), "unknown");
  }
  EXPECT_STREQ(rhizome_reason_name(RHIZOME_REASON_OFF), "off");
  EXPECT_STREQ(rhizome_reason_name(RHIZOME_REASON_NONE), "unknown");
  EXPECT_GT(std::strlen(rhizome_version()), 2u);
  EXPECT_EQ(rhizome_abi_version(), static_cast<uint32_t>(RHIZOME_ABI_VERSION));
  EXPECT_EQ(rhizome_set_log_level(-1), RHIZOME_INVALID_ARGUMENT);
  EXPECT_EQ(rhizome_set_log_level(5), RHIZOME_INVALID_ARGUMENT);
  EXPECT_EQ(rhizome_set_log_level(RHIZOME_LOG_INFO), RHIZOME_OK);
}

TEST_F(CInterface, TheCacheOfANode) {
  const TemporaryFolder folder;
  const std::string socket = folder.path("run/node.sock");
  const auto counters = Counters::local();
  auto node = Node::start({.socket_path = socket, .memory_bytes = 8 * kTestMiB}, *counters);
  ASSERT_TRUE(node);
  rhizome_client* const one = attach_client(socket);
  rhizome_client* const other = attach_client(socket);
  {
    CacheUser writer(one);
    CacheUser reader(other);
    const auto prompt = blocks_of({1, 2, 3});
    EXPECT_EQ(writer.put(prompt), 3u);
    EXPECT_EQ(reader.get(prompt), 3u);
    const void* payload = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(rhizome_hit_read(reader.hit, 2, &payload, &bytes, told_.get()), RHIZOME_OK);
    const std::vector<std::byte> before(static_cast<const std::byte*>(payload),
                                        static_cast<const std::byte*>(payload) + bytes);
    node->reset();
    EXPECT_EQ(std::memcmp(payload, before.data(), bytes), 0) << "what is mapped stays";
    EXPECT_EQ(rhizome_hit_read(reader.hit, 2, &payload, &bytes, told_.get()), RHIZOME_UNAVAILABLE)
        << "that it may be used is another question";
    EXPECT_FALSE(told_.message().empty());
    EXPECT_EQ(rhizome_hit_blocks_count(reader.hit), 2u);
    EXPECT_EQ(rhizome_hit_reason(reader.hit), RHIZOME_REASON_LOAD_FAILED);
    EXPECT_EQ(reader.get(prompt), 0u);
    EXPECT_EQ(writer.put(blocks_of({1, 2, 3, 4})), 0u);
    EXPECT_EQ(writer.told.code(), RHIZOME_UNAVAILABLE);
    EXPECT_FALSE(writer.told.message().empty());
    EXPECT_EQ(reader.wrong, 0u);
  }
  EXPECT_EQ(rhizome_client_close(one), RHIZOME_OK);
  EXPECT_EQ(rhizome_client_close(other), RHIZOME_OK);
}

}  // namespace
}  // namespace rhizome
