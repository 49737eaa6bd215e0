// The case `shared` for one contestant: agents that share a long prefix and have a suffix of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/contestant.h"
#include "bench/ledger.h"
#include "bench/samples.h"
#include "bench/together.h"
#include "bench/token_source.h"

namespace rhizome::bench {

struct SharedShape {
  uint32_t prefix_tokens = 8192;
  uint32_t suffix_tokens = 1024;
  uint32_t agents = 0;      // stored before anything is measured
  uint32_t operations = 0;  // of each thread in a round
  uint32_t ring = 64;       // agents that a thread keeps at work
};

enum class SharedLookup : uint8_t {
  kFullHit,    // an agent that is stored
  kPrefixHit,  // one that is not: only the prefix is found
  kPrefix,     // the prefix alone, again and again
};

// What one new agent costs: look up, store the suffix, release an older agent, evict as many blocks.
struct CycleSamples {
  Samples insert;
  Samples evict;
  Samples all;
};

// The contestant behind a face that is the same for all.
class SharedSeat {
 public:
  virtual ~SharedSeat() = default;
  virtual std::string_view name() const = 0;
  // Look-up and release.
  virtual Result<Samples> look_up(SharedLookup kind, uint32_t threads, uint64_t round) = 0;
  // Only after the last look_up(): stored agents make room.
  virtual Result<CycleSamples> cycle(uint32_t threads) = 0;
  virtual const Ledger& ledger() const = 0;
};

template <Contestant C>
class SharedSeatOf final : public SharedSeat {
 public:
  SharedSeatOf(const SharedShape& shape, const TokenSource& source)
      : shape_(shape),
        source_(source),
        index_({blocks(), shape.agents + 1}),
        ledger_(blocks() + kThreadsMax * spare()) {
    for (uint32_t agent = 0; agent < shape.agents; ++agent)
      store(agent);
    for (Location location = static_cast<Location>(blocks()); location < blocks() + kThreadsMax * spare(); ++location)
      spare_.push_back(location);
  }

  std::string_view name() const override { return C::kName; }
  const Ledger& ledger() const override { return ledger_; }

  Result<Samples> look_up(SharedLookup kind, uint32_t threads, uint64_t round) override {
    std::vector<LookupWorker> workers;
    workers.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread)
      workers.emplace_back(*this, kind, round * kThreadsMax + thread, threads == 1);
    if (const Status ran = run_together(workers, shape_.operations, calls_max(threads)); !ran) return fail(ran.error());
    Samples all;
    for (const LookupWorker& worker : workers)
      all.add(worker.samples);
    return all;
  }

  Result<CycleSamples> cycle(uint32_t threads) override {
    std::vector<CycleWorker> workers;
    workers.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread)
      workers.emplace_back(*this);
    if (const Status ran = run_together(workers, shape_.operations, calls_max(threads)); !ran) return fail(ran.error());
    CycleSamples all;
    for (CycleWorker& worker : workers) {
      worker.finish();
      all.insert.add(worker.samples.insert);
      all.evict.add(worker.samples.evict);
      all.all.add(worker.samples.all);
    }
    return all;
  }

 private:
  static constexpr uint32_t kThreadsMax = 2;
  static constexpr uint32_t kPatience = 4;  // times as many calls, for a machine that has other things to do
  static constexpr uint64_t kPrefixSequence = 0xabcdef;
  static constexpr uint64_t kNewAgents = uint64_t{1} << 40;

  uint32_t calls_max(uint32_t threads) const { return shape_.operations * (threads == 1 ? 1 : kPatience); }
  uint32_t prefix_blocks() const { return shape_.prefix_tokens / C::kBlockTokens; }
  uint32_t suffix_blocks() const { return shape_.suffix_tokens / C::kBlockTokens; }
  size_t blocks() const { return prefix_blocks() + size_t{shape_.agents} * suffix_blocks(); }
  // Locations that a thread has in hand: what it stores next, and what it may be ahead.
  size_t spare() const { return size_t{4} * suffix_blocks(); }

  // A prompt: the prefix, and room for a suffix.
  std::vector<Token> prompt() const {
    std::vector<Token> tokens(shape_.prefix_tokens + shape_.suffix_tokens);
    source_.fill(std::span(tokens).first(shape_.prefix_tokens), kPrefixSequence);
    return tokens;
  }
  void spell_suffix(std::span<Token> prompt, uint64_t agent) const {
    source_.fill(prompt.subspan(shape_.prefix_tokens), agent + 1);
  }

  // Of a prompt of a stored agent: those of the prefix and of its own blocks.
  std::vector<Location> locations() const {
    std::vector<Location> all(prefix_blocks() + suffix_blocks());
    std::iota(all.begin(), all.end(), Location{0});
    return all;
  }
  void place_suffix(std::span<Location> locations, uint32_t agent) const {
    const std::span<Location> own = locations.subspan(prefix_blocks());
    std::iota(own.begin(), own.end(), prefix_blocks() + agent * suffix_blocks());
  }

  void store(uint32_t agent) {
    std::vector<Token> tokens = prompt();
    spell_suffix(tokens, agent);
    std::vector<Location> where = locations();
    place_suffix(where, agent);
    std::vector<Location> found(where.size());
    typename C::Handle handle;
    const uint32_t known = index_.lookup(tokens, found, handle);
    ledger_.checked(std::span(found).first(known), std::span(where).first(agent == 0 ? 0 : prefix_blocks()), true);
    index_.insert(tokens, where, handle);
    index_.release(handle);
    ledger_.stored(std::span(where).subspan(known));
  }

  struct LookupWorker {
    LookupWorker(SharedSeatOf& of, SharedLookup of_kind, uint64_t seed, bool counted)
        : seat(of),
          kind(of_kind),
          is_counted(counted),
          numbers(seed * 77 + 5),
          tokens(of.prompt()),
          expected(of.locations()),
          found(expected.size()),
          next_new(kNewAgents + seed * (kNewAgents >> 8)) {}

    void operator()(bool is_measured) {
      std::span<const Token> asked = tokens;
      size_t known = expected.size();
      if (kind == SharedLookup::kFullHit) {
        const uint32_t agent = static_cast<uint32_t>(numbers.below(seat.shape_.agents));
        seat.spell_suffix(tokens, agent);
        seat.place_suffix(expected, agent);
      } else {
        known = seat.prefix_blocks();
        if (kind == SharedLookup::kPrefix) asked = asked.first(seat.shape_.prefix_tokens);
        if (kind == SharedLookup::kPrefixHit) seat.spell_suffix(tokens, next_new++);
      }
      typename C::Handle handle;
      const uint64_t start = ticks_now();
      const uint32_t blocks = seat.index_.lookup(asked, found, handle);
      seat.index_.release(handle);
      const uint64_t ticks = ticks_now() - start;
      if (is_measured) samples.add(ticks);
      seat.ledger_.checked(std::span(found).first(blocks), std::span(expected).first(known), is_counted);
    }
    void measured_alone() { samples.last_was_alone(); }

    SharedSeatOf& seat;
    const SharedLookup kind;
    const bool is_counted;  // in the checksum
    SeededNumbers numbers;
    std::vector<Token> tokens;
    std::vector<Location> expected;
    std::vector<Location> found;
    uint64_t next_new;
    Samples samples;
  };

  struct CycleWorker {
    explicit CycleWorker(SharedSeatOf& of)
        : seat(of),
          tokens(of.prompt()),
          where(of.locations()),
          found(where.size()),
          ring(of.shape_.ring),
          evicted(of.spare()) {
      pool.assign(of.spare_.end() - static_cast<ptrdiff_t>(of.spare()), of.spare_.end());
      of.spare_.resize(of.spare_.size() - of.spare());
      for (uint32_t i = 0; i < of.shape_.ring; ++i)
        (*this)(false);
    }

    void operator()(bool is_measured) {
      const uint32_t own = seat.suffix_blocks();
      if (pool.size() < own) {  // the index did not evict what it should have
        seat.ledger_.failed();
        return;
      }
      seat.spell_suffix(tokens, seat.next_agent_.fetch_add(1));
      std::copy(pool.end() - own, pool.end(), where.begin() + seat.prefix_blocks());
      pool.resize(pool.size() - own);
      const std::span<const Location> mine = std::span(where).subspan(seat.prefix_blocks());
      seat.ledger_.stored(mine);
      const size_t wanted = seat.spare() - pool.size();
      typename C::Handle handle;
      const uint64_t start = ticks_now();
      const uint32_t known = seat.index_.lookup(tokens, found, handle);
      const uint64_t looked_up = ticks_now();
      seat.index_.insert(tokens, where, handle);
      const uint64_t inserted = ticks_now();
      typename C::Handle older = std::exchange(ring[at], std::move(handle));
      at = (at + 1) % ring.size();
      seat.index_.release(older);
      const uint64_t released = ticks_now();
      const size_t gone = seat.index_.evict(std::span(evicted).first(wanted));
      const uint64_t end = ticks_now();
      if (is_measured) {
        samples.insert.add(inserted - looked_up);
        samples.evict.add(end - released);
        samples.all.add(end - start);
      }
      seat.ledger_.evicted(std::span(evicted).first(gone));
      pool.insert(pool.end(), evicted.begin(), evicted.begin() + static_cast<ptrdiff_t>(gone));
      seat.ledger_.checked(std::span(found).first(known), std::span(where).first(seat.prefix_blocks()), false);
    }
    void measured_alone() {
      samples.insert.last_was_alone();
      samples.evict.last_was_alone();
      samples.all.last_was_alone();
    }

    // Lets go of everything: to be called when all threads are done.
    void finish() {
      for (typename C::Handle& handle : ring)
        seat.index_.release(handle);
      seat.spare_.insert(seat.spare_.end(), pool.begin(), pool.end());
    }

    SharedSeatOf& seat;
    std::vector<Token> tokens;
    std::vector<Location> where;
    std::vector<Location> found;
    std::vector<typename C::Handle> ring;
    size_t at = 0;
    std::vector<Location> evicted;
    LocationPool pool;
    CycleSamples samples;
  };

  const SharedShape shape_;
  const TokenSource& source_;
  C index_;
  Ledger ledger_;
  LocationPool spare_;
  std::atomic<uint64_t> next_agent_ = kNewAgents << 1;
};

}  // namespace rhizome::bench
