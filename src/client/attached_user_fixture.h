// For tests of attached clients: one that stores and reads, and compares with what the oracle says (block/oracle.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "client/client.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "store/store_fixture.h"
#include "store/store_tier_fixture.h"
#include "telemetry/counters.h"

namespace rhizome {

// One that stores and reads what the oracle says.
class AttachedUser {
 public:
  static constexpr uint64_t kPayloadBytes = 3000;

  explicit AttachedUser(const std::string& socket, std::string_view keyspace = "a", uint64_t staging_bytes = 1 << 20,
                        const std::string& tenant = {}, VerifyPolicy verify = VerifyPolicy::kTier,
                        uint64_t reply_wait_ns = 5'000'000'000)
      : counters_(Counters::local()), keyspace_(keyspace_named(keyspace)) {
    // The node may be about to come, or to go.
    for (const uint64_t began = monotonic_now_ns(); monotonic_now_ns() < began + 10'000'000'000;
         pause_thread(1'000'000)) {
      auto attached = make_attached_client({.socket_path = socket,
                                            .tenant = tenant,
                                            .staging_bytes = staging_bytes,
                                            .reply_wait_ns = reply_wait_ns,
                                            .verify = verify},
                                           *counters_);
      if (!attached) continue;
      client = std::move(*attached);
      const Result<KeyspaceId> opened = client->open(keyspace_, block_of(kPayloadBytes));
      if (opened) id = *opened;
      if (opened) return;
    }
    ADD_FAILURE() << "there is no node";
  }

  // Reserved and written.
  Result<Draft> draft_of(std::span<const Token> tokens, uint32_t first_block = 0) {
    Result<Draft> draft = client->reserve(id, tokens, first_block);
    if (!draft) return draft;
    for (size_t i = 0; i < draft->blocks_count(); ++i)
      fill_oracle(draft->payload(i), keyspace_.digest(), tokens.first((draft->first_block() + i + 1) * 16));
    return draft;
  }
  size_t put(std::span<const Token> tokens) {
    Result<Draft> draft = draft_of(tokens);
    return draft ? client->commit(std::move(*draft)) : 0;
  }
  // How many blocks are on their way.
  size_t put_later(std::span<const Token> tokens, uint32_t first_block = 0) {
    Result<Draft> draft = draft_of(tokens, first_block);
    if (!draft) return 0;
    const size_t blocks = draft->blocks_count();
    client->commit_later(std::move(*draft));
    return blocks;
  }
  // Ends the session; there must be no hit.
  void close() { client.reset(); }
  // Blocks that were found and are right; the hit stays.
  size_t get(std::span<const Token> prompt) {
    client->lookup(id, prompt, hit);
    return check(prompt);
  }
  size_t check(std::span<const Token> prompt) {
    const size_t end = client->promote(hit, prompt, 0, hit.blocks_count());
    for (size_t i = 0; i < end; ++i) {
      const auto bytes = client->read(hit, prompt, i);
      if (!bytes) {
        EXPECT_EQ(bytes.error().code, Code::kUnavailable) << bytes.error().reason;
        return i;
      }
      wrong += !oracle_matches(*bytes, keyspace_.digest(), prompt.first((i + 1) * 16));
    }
    return end;
  }

 private:
  const std::unique_ptr<Counters> counters_;

 public:
  std::unique_ptr<Client> client;
  KeyspaceId id;
  Hit hit;
  uint64_t wrong = 0;

 private:
  const Keyspace keyspace_;
};

}  // namespace rhizome
