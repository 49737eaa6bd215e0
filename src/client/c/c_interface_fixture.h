// For tests of the C interface: a user of it that stores and reads what the oracle says (block/oracle.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rhizome/rhizome.h>

#include "block/oracle.h"
#include "block/sha256.h"
#include "block/token.h"

namespace rhizome {

inline constexpr uint64_t kTestMiB = 1 << 20;
inline constexpr uint32_t kTestPayloadBytes = 3000;

class Told {
 public:
  rhizome_error* get() { return &error_; }
  std::string_view message() const { return error_.message; }
  int32_t code() const { return error_.code; }

 private:
  rhizome_error error_ = RHIZOME_ERROR_INIT;
};

inline rhizome_embedded_options embedded_options(uint64_t memory_bytes = 8 * kTestMiB) {
  rhizome_embedded_options options = RHIZOME_EMBEDDED_OPTIONS_INIT;
  options.memory_bytes = memory_bytes;
  return options;
}

// The fields that every keyspace has; they refer to `tenant`.
inline std::vector<rhizome_keyspace_field> test_fields(std::string_view tenant = "a") {
  return {RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ENGINE, "engine"),
          RHIZOME_TEXT_FIELD(RHIZOME_FIELD_WEIGHTS, "weights"),
          RHIZOME_TEXT_FIELD(RHIZOME_FIELD_LAYOUT, "layout"),
          RHIZOME_TEXT_FIELD(RHIZOME_FIELD_MEMORY_CLASS, "dense"),
          RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ROPE, "rope"),
          RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ATTENTION, "causal"),
          {RHIZOME_FIELD_TENANT, 0, std::as_bytes(std::span(tenant)).data(), tenant.size()}};
}

// Blocks of which only the size is known. Refers to `fields`.
inline rhizome_keyspace_options opaque_keyspace(const std::vector<rhizome_keyspace_field>& fields) {
  rhizome_keyspace_options options = RHIZOME_KEYSPACE_OPTIONS_INIT;
  options.fields = fields.data();
  options.fields_count = fields.size();
  options.layout = RHIZOME_LAYOUT_OPAQUE;
  options.opaque_bytes = kTestPayloadBytes;
  return options;
}

inline rhizome_client* open_embedded_client(uint64_t memory_bytes = 8 * kTestMiB) {
  const rhizome_embedded_options options = embedded_options(memory_bytes);
  rhizome_client* client = nullptr;
  Told told;
  EXPECT_EQ(rhizome_client_open_embedded(&options, &client, told.get()), RHIZOME_OK) << told.message();
  return client;
}

inline rhizome_client* attach_client(const std::string& socket) {
  rhizome_attached_options options = RHIZOME_ATTACHED_OPTIONS_INIT;
  options.socket_path = socket.c_str();
  options.staging_bytes = kTestMiB;
  rhizome_client* client = nullptr;
  Told told;
  EXPECT_EQ(rhizome_client_attach(&options, &client, told.get()), RHIZOME_OK) << told.message();
  return client;
}

// The call must be refused, with a text.
inline void expect_refused(const char* what, rhizome_code expected,
                           const std::function<rhizome_code(rhizome_error*)>& call) {
  Told told;
  EXPECT_EQ(call(told.get()), expected) << what;
  EXPECT_EQ(told.code(), expected) << what;
  EXPECT_FALSE(told.message().empty()) << what;
  EXPECT_EQ(call(nullptr), expected) << what << ", without an error";
}

class CacheUser {
 public:
  explicit CacheUser(rhizome_client* client, std::string_view tenant = "a")
      : oracle_(sha256(std::as_bytes(std::span(tenant)))) {
    const auto fields = test_fields(tenant);
    const rhizome_keyspace_options options = opaque_keyspace(fields);
    EXPECT_EQ(rhizome_keyspace_open(client, &options, &keyspace, told.get()), RHIZOME_OK) << told.message();
  }
  ~CacheUser() {
    rhizome_hit_release(hit);
    rhizome_keyspace_close(keyspace);
  }
  CacheUser(const CacheUser&) = delete;
  CacheUser& operator=(const CacheUser&) = delete;

  // How many blocks became visible.
  size_t put(std::span<const Token> tokens) {
    rhizome_draft* draft = nullptr;
    if (rhizome_reserve(keyspace, tokens.data(), tokens.size(), 0, &draft, told.get()) != RHIZOME_OK) return 0;
    fill(draft, tokens);
    size_t visible = 0;
    EXPECT_EQ(rhizome_draft_commit(draft, &visible, told.get()), RHIZOME_OK) << told.message();
    return visible;
  }
  void fill(rhizome_draft* draft, std::span<const Token> tokens) {
    for (size_t i = 0; i < rhizome_draft_blocks_count(draft); ++i) {
      void* payload = nullptr;
      size_t bytes = 0;
      ASSERT_EQ(rhizome_draft_payload(draft, i, &payload, &bytes, told.get()), RHIZOME_OK) << told.message();
      ASSERT_EQ(bytes, kTestPayloadBytes);
      fill_oracle({static_cast<std::byte*>(payload), bytes}, oracle_,
                  tokens.first((rhizome_draft_first_block(draft) + i + 1) * 16));
    }
  }
  // How many blocks were found and are right; the hit stays.
  size_t get(std::span<const Token> prompt) {
    EXPECT_EQ(rhizome_lookup(keyspace, prompt.data(), prompt.size(), &hit, told.get()), RHIZOME_OK) << told.message();
    size_t end = 0;
    EXPECT_EQ(rhizome_hit_promote(hit, 0, rhizome_hit_blocks_count(hit), &end, told.get()), RHIZOME_OK);
    for (size_t i = 0; i < end; ++i) {
      if (!is_right(prompt, i)) return i;
    }
    return end;
  }
  bool is_right(std::span<const Token> prompt, size_t i) {
    const void* payload = nullptr;
    size_t bytes = 0;
    if (rhizome_hit_read(hit, i, &payload, &bytes, told.get()) != RHIZOME_OK) return false;
    const bool matches =
        oracle_matches({static_cast<const std::byte*>(payload), bytes}, oracle_, prompt.first((i + 1) * 16));
    wrong += !matches;
    return matches;
  }

  rhizome_keyspace* keyspace = nullptr;
  rhizome_hit* hit = nullptr;
  Told told;
  uint64_t wrong = 0;

 private:
  const Digest oracle_;
};

}  // namespace rhizome
