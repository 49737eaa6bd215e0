// What `rhizome bench host` stores and asks for, the same in all its processes: prompts of agents that share a prefix,
// and payloads that say whose they are.
//
// Thread-safety: plain values; a HostUser belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/token_source.h"
#include "block/keyspace.h"
#include "block/token.h"
#include "client/client.h"
#include "codec/block_geometry.h"
#include "contract/result.h"
#include "store/store.h"

namespace rhizome::bench {

inline constexpr uint32_t kHostBlockTokens = 16;

struct HostShape {
  uint32_t prefix_blocks = 0;  // that all agents share
  uint32_t suffix_blocks = 0;
  uint32_t payload_bytes = 0;  // of a block

  uint32_t prompt_blocks() const { return prefix_blocks + suffix_blocks; }
  BlockGeometry geometry() const { return BlockGeometry::opaque(kHostBlockTokens, payload_bytes); }
};

// Of what benches of this layer store.
Keyspace bench_keyspace();

class HostPrompts {
 public:
  explicit HostPrompts(const HostShape& shape);

  const HostShape& shape() const { return shape_; }
  // An agent's prompt, until the next call.
  std::span<const Token> of(uint64_t agent);
  // What the block of that prompt holds, and whether it does.
  void fill_payload(std::span<std::byte> out, uint64_t agent, uint32_t block) const;
  bool payload_matches(std::span<const std::byte> bytes, uint64_t agent, uint32_t block) const;
  // Of each of its first and last bytes alone: where it is time that is measured.
  bool payload_begins_and_ends(std::span<const std::byte> bytes, uint64_t agent, uint32_t block) const;

 private:
  uint64_t word_of(uint64_t agent, uint32_t block) const;

  HostShape shape_;
  TokenSource source_;
  std::vector<Token> tokens_;
};

// What one of the processes did.
struct HostTally {
  uint64_t done = 0;   // look-ups that found all, blocks that were read or stored
  uint64_t wrong = 0;  // bytes that were not those
  double median_ns = 0;
  double p99_ns = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;  // look-ups that found less
};

// Median and 99th percentile of times in ticks, which it sorts; nothing of none.
void put_times(std::vector<uint64_t>& ticks, HostTally& tally);

// Somebody who looks up, reads and stores through a client, embedded or attached.
class HostUser {
 public:
  static Result<HostUser> open(Client& client, const HostShape& shape);

  HostPrompts& prompts() { return prompts_; }
  // `count` look-ups of random agents below `agents`, each released at once; each is timed.
  HostTally look_up(uint32_t count, uint64_t agents, uint64_t seed);
  // One look-up each of these agents, in order.
  HostTally touch(std::span<const uint32_t> agents);
  // Of agents [first, first + count): all blocks, compared byte by byte.
  HostTally read_all(uint64_t first, uint32_t count);
  // As look_up(), to a pointer to the first byte of the last block; the byte is read.
  HostTally point(uint32_t count, uint64_t agents, uint64_t seed);
  // Stores agents [first, first + count), as an engine does: each while the one before is on its way. The time is that
  // of all of them, until they are there.
  HostTally store(uint64_t first, uint32_t count);
  // Look-up, pointer to a block, release, again and again, with nothing else in between.
  HostTally hit(uint32_t count, uint64_t agent);
  // How many blocks of an agent are there.
  uint32_t found(uint64_t agent);

 private:
  HostUser(Client& client, KeyspaceId keyspace, const HostShape& shape)
      : client_(&client), keyspace_(keyspace), prompts_(shape) {}

  Client* client_;
  KeyspaceId keyspace_;
  HostPrompts prompts_;
  Hit hit_;
};

// Stores agents [first, first + count) in a store of this process; how many blocks.
Result<uint64_t> store_agents(Store& store, Root root, HostPrompts& prompts, uint64_t first, uint32_t count);

}  // namespace rhizome::bench
