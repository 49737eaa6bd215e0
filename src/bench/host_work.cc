#include "bench/host_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bench/ticks.h"
#include "contract/check.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kTokenSeed = 20'240'817;
constexpr uint64_t kPrefixSequence = 0xabcdef;

}  // namespace

void put_times(std::vector<uint64_t>& ticks, HostTally& tally) {
  if (ticks.empty()) return;
  std::ranges::sort(ticks);
  tally.median_ns = static_cast<double>(ticks[ticks.size() / 2]) * ns_per_tick();
  tally.p99_ns = static_cast<double>(ticks[ticks.size() * 99 / 100]) * ns_per_tick();
}

Keyspace bench_keyspace() {
  KeyspaceBuilder builder;
  builder.set(KeyspaceTag::kEngine, "bench").set(KeyspaceTag::kWeights, "made up");
  builder.set(KeyspaceTag::kLayout, "bench").set(KeyspaceTag::kMemoryClass, "dense");
  builder.set(KeyspaceTag::kRope, "none").set(KeyspaceTag::kAttention, "causal");
  Result<Keyspace> keyspace = builder.seal();
  RHIZOME_CHECK(keyspace);
  return std::move(*keyspace);
}

HostPrompts::HostPrompts(const HostShape& shape)
    : shape_(shape), source_(kTokenSeed), tokens_(size_t{shape.prompt_blocks()} * kHostBlockTokens) {
  source_.fill(std::span(tokens_).first(size_t{shape.prefix_blocks} * kHostBlockTokens), kPrefixSequence);
}

std::span<const Token> HostPrompts::of(uint64_t agent) {
  source_.fill(std::span(tokens_).subspan(size_t{shape_.prefix_blocks} * kHostBlockTokens), agent + 1);
  return tokens_;
}

uint64_t HostPrompts::word_of(uint64_t agent, uint32_t block) const {
  const uint64_t whose = block < shape_.prefix_blocks ? 0 : agent + 1;
  uint64_t word = (whose << 20 | block) * 0x9e37'79b9'7f4a'7c15;
  word ^= word >> 31;
  return word | 1;
}

void HostPrompts::fill_payload(std::span<std::byte> out, uint64_t agent, uint32_t block) const {
  const uint64_t word = word_of(agent, block);
  for (size_t i = 0; i < out.size(); i += sizeof(word))
    std::memcpy(out.data() + i, &word, std::min(sizeof(word), out.size() - i));
}

bool HostPrompts::payload_matches(std::span<const std::byte> bytes, uint64_t agent, uint32_t block) const {
  const uint64_t word = word_of(agent, block);
  bool is_right = bytes.size() == shape_.payload_bytes;
  for (size_t i = 0; i < bytes.size(); i += sizeof(word))
    is_right = is_right && std::memcmp(bytes.data() + i, &word, std::min(sizeof(word), bytes.size() - i)) == 0;
  return is_right;
}

bool HostPrompts::payload_begins_and_ends(std::span<const std::byte> bytes, uint64_t agent, uint32_t block) const {
  const uint64_t word = word_of(agent, block);
  const size_t last = bytes.size() - sizeof(word);
  return bytes.size() == shape_.payload_bytes && bytes.size() % sizeof(word) == 0 && bytes.size() >= sizeof(word) &&
         std::memcmp(bytes.data(), &word, sizeof(word)) == 0 &&
         std::memcmp(bytes.data() + last, &word, sizeof(word)) == 0;
}

Result<HostUser> HostUser::open(Client& client, const HostShape& shape) {
  const Result<KeyspaceId> keyspace = client.open(bench_keyspace(), shape.geometry());
  if (!keyspace) return fail(keyspace.error());
  return HostUser(client, *keyspace, shape);
}

HostTally HostUser::look_up(uint32_t count, uint64_t agents, uint64_t seed) {
  SeededNumbers random(seed);
  HostTally tally;
  std::vector<uint64_t> ticks;
  ticks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const std::span<const Token> prompt = prompts_.of(random.below(agents));
    const uint64_t start = ticks_now();
    client_->lookup(keyspace_, prompt, hit_);
    const size_t blocks = hit_.blocks_count();
    hit_.release();
    const uint64_t end = ticks_now();
    // Only what is there is a hit: while blocks leave, some are not.
    if (blocks == prompts_.shape().prompt_blocks()) {
      ++tally.done;
      ticks.push_back(end - start);
    } else {
      ++tally.lost;
    }
  }
  put_times(ticks, tally);
  return tally;
}

HostTally HostUser::touch(std::span<const uint32_t> agents) {
  HostTally tally;
  for (const uint32_t agent : agents) {
    client_->lookup(keyspace_, prompts_.of(agent), hit_);
    tally.done += hit_.blocks_count() == prompts_.shape().prompt_blocks();
    hit_.release();
  }
  return tally;
}

HostTally HostUser::read_all(uint64_t first, uint32_t count) {
  HostTally tally;
  for (uint64_t agent = first; agent < first + count; ++agent) {
    const std::span<const Token> prompt = prompts_.of(agent);
    client_->lookup(keyspace_, prompt, hit_);
    const size_t end = client_->promote(hit_, prompt, 0, hit_.blocks_count());
    for (uint32_t block = 0; block < end; ++block) {
      const auto bytes = client_->read(hit_, prompt, block);
      if (!bytes) break;
      ++tally.done;
      tally.bytes += bytes->size();
      tally.wrong += !prompts_.payload_matches(*bytes, agent, block);
    }
    hit_.release();
  }
  return tally;
}

HostTally HostUser::point(uint32_t count, uint64_t agents, uint64_t seed) {
  SeededNumbers random(seed);
  HostTally tally;
  std::vector<uint64_t> ticks;
  ticks.reserve(count);
  const uint32_t last = prompts_.shape().prompt_blocks() - 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t agent = random.below(agents);
    const std::span<const Token> prompt = prompts_.of(agent);
    const uint64_t start = ticks_now();
    client_->lookup(keyspace_, prompt, hit_);
    const auto bytes = client_->read(hit_, prompt, last);
    const bool is_right = bytes && prompts_.payload_begins_and_ends(*bytes, agent, last);
    const uint64_t end = ticks_now();
    hit_.release();
    ticks.push_back(end - start);
    ++(bytes ? tally.done : tally.lost);
    tally.wrong += bytes && !is_right;
  }
  put_times(ticks, tally);
  return tally;
}

HostTally HostUser::store(uint64_t first, uint32_t count) {
  const uint32_t blocks = prompts_.shape().prompt_blocks();
  const size_t payload_bytes = prompts_.shape().payload_bytes;
  // An engine has its rows somewhere, and copies them.
  std::vector<std::byte> rows(size_t{count} * blocks * payload_bytes);
  const auto rows_of = [&](uint64_t agent, uint32_t block) {
    return std::span(rows).subspan(((agent - first) * blocks + block) * payload_bytes, payload_bytes);
  };
  for (uint64_t agent = first; agent < first + count; ++agent) {
    for (uint32_t block = 0; block < blocks; ++block)
      prompts_.fill_payload(rows_of(agent, block), agent, block);
  }
  HostTally tally;
  const uint64_t start = ticks_now();
  for (uint64_t agent = first; agent < first + count; ++agent) {
    Result<Draft> draft = client_->reserve(keyspace_, prompts_.of(agent), 0);
    if (!draft) continue;
    for (uint32_t i = 0; i < draft->blocks_count(); ++i) {
      const auto from = rows_of(agent, draft->first_block() + i);
      std::memcpy(draft->payload(i).data(), from.data(), from.size());
    }
    client_->commit_later(std::move(*draft));
  }
  tally.done = client_->settle().blocks_count;
  tally.median_ns = static_cast<double>(ticks_now() - start) * ns_per_tick();
  return tally;
}

HostTally HostUser::hit(uint32_t count, uint64_t agent) {
  HostTally tally;
  const std::span<const Token> prompt = prompts_.of(agent);
  for (uint32_t i = 0; i < count; ++i) {
    client_->lookup(keyspace_, prompt, hit_);
    const bool is_full = hit_.blocks_count() == prompts_.shape().prompt_blocks();
    const auto bytes = client_->read(hit_, prompt, 0);
    tally.wrong += bytes && !prompts_.payload_matches(*bytes, agent, 0);
    ++(is_full && bytes ? tally.done : tally.lost);
    hit_.release();
  }
  return tally;
}

uint32_t HostUser::found(uint64_t agent) {
  return static_cast<uint32_t>(client_->peek(keyspace_, prompts_.of(agent)) / kHostBlockTokens);
}

Result<uint64_t> store_agents(Store& store, Root root, HostPrompts& prompts, uint64_t first, uint32_t count) {
  uint64_t stored = 0;
  for (uint64_t agent = first; agent < first + count; ++agent) {
    Result<BlockDraft> draft = store.reserve(root, prompts.of(agent), 0);
    if (!draft) return fail(draft.error());
    for (uint32_t i = 0; i < draft->blocks_count(); ++i)
      prompts.fill_payload(draft->payload(i), agent, draft->first_block() + i);
    stored += store.commit(std::move(*draft));
  }
  return stored;
}

}  // namespace rhizome::bench
