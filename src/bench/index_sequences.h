// Sequences that share nothing, for one contestant: found, not found, replaced by new ones, and what they take.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "bench/contestant.h"
#include "bench/ledger.h"
#include "bench/samples.h"
#include "bench/together.h"
#include "bench/token_source.h"

namespace rhizome::bench {

struct SequencesShape {
  uint32_t blocks_each = 1;
  uint32_t sequences = 0;   // stored before anything is measured
  uint32_t operations = 0;  // of each thread in a round
  bool as_needed = false;   // Expected::as_needed
};

class SequencesSeat {
 public:
  virtual ~SequencesSeat() = default;
  virtual std::string_view name() const = 0;
  // Look-up and release of a stored sequence, or of one that is not.
  virtual Result<Samples> look_up(bool is_stored, uint32_t threads, uint64_t round) = 0;
  // Evicts the blocks of 64 sequences at once and stores as many new ones: look up, insert, release. One sample for all
  // of it. Only after the last look_up().
  virtual Result<Samples> turn_over(uint32_t threads) = 0;
  virtual const Ledger& ledger() const = 0;
};

template <Contestant C>
class SequencesSeatOf final : public SequencesSeat {
 public:
  static constexpr uint32_t kBatch = 64;

  SequencesSeatOf(const SequencesShape& shape, const TokenSource& source)
      : shape_(shape), source_(source), index_({blocks(), shape.sequences, shape.as_needed}), ledger_(blocks()) {
    std::vector<Token> tokens(size_t{shape.blocks_each} * C::kBlockTokens);
    std::vector<Location> where(shape.blocks_each);
    std::vector<Location> found(shape.blocks_each);
    for (uint32_t sequence = 0; sequence < shape.sequences; ++sequence) {
      std::iota(where.begin(), where.end(), sequence * shape.blocks_each);
      store(tokens, sequence, where, found);
    }
  }

  std::string_view name() const override { return C::kName; }
  const Ledger& ledger() const override { return ledger_; }

  Result<Samples> look_up(bool is_stored, uint32_t threads, uint64_t round) override {
    std::vector<LookupWorker> workers;
    workers.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread)
      workers.emplace_back(*this, is_stored, round * kThreadsMax + thread, threads == 1);
    return run_all(workers, shape_.operations);
  }

  Result<Samples> turn_over(uint32_t threads) override {
    std::vector<TurnoverWorker> workers;
    workers.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread)
      workers.emplace_back(*this);
    return run_all(workers, shape_.operations / kBatch + 1);
  }

 private:
  static constexpr uint32_t kThreadsMax = 2;
  static constexpr uint32_t kPatience = 4;  // times as many calls, for a machine that has other things to do
  static constexpr uint64_t kNewSequences = uint64_t{1} << 40;

  size_t blocks() const { return size_t{shape_.sequences} * shape_.blocks_each; }

  // `tokens` and `found` are room for it.
  void store(std::span<Token> tokens, uint64_t sequence, std::span<const Location> where, std::span<Location> found) {
    source_.fill(tokens, sequence + 1);
    typename C::Handle handle;
    const uint32_t known = index_.lookup(tokens, found, handle);
    index_.insert(tokens, where, handle);
    index_.release(handle);
    ledger_.checked(found.first(known), found.first(0), false);
    ledger_.stored(where);
  }

  template <class Worker>
  static Result<Samples> run_all(std::vector<Worker>& workers, uint32_t count) {
    const uint32_t calls_max = workers.size() == 1 ? count : kPatience * count;
    if (const Status ran = run_together(workers, count, calls_max); !ran) return fail(ran.error());
    Samples all;
    for (const Worker& worker : workers)
      all.add(worker.samples);
    return all;
  }

  struct LookupWorker {
    LookupWorker(SequencesSeatOf& of, bool of_stored, uint64_t seed, bool counted)
        : seat(of),
          is_stored(of_stored),
          is_counted(counted),
          numbers(seed * 91 + 3),
          tokens(size_t{of.shape_.blocks_each} * C::kBlockTokens),
          expected(of_stored ? of.shape_.blocks_each : 0),
          found(of.shape_.blocks_each) {}

    void operator()(bool is_measured) {
      const uint32_t sequence = static_cast<uint32_t>(numbers.below(seat.shape_.sequences));
      seat.source_.fill(tokens, (is_stored ? 0 : kNewSequences) + sequence + 1);
      std::iota(expected.begin(), expected.end(), sequence * seat.shape_.blocks_each);
      typename C::Handle handle;
      const uint64_t start = ticks_now();
      const uint32_t blocks = seat.index_.lookup(tokens, found, handle);
      seat.index_.release(handle);
      const uint64_t ticks = ticks_now() - start;
      if (is_measured) samples.add(ticks);
      seat.ledger_.checked(std::span(found).first(blocks), expected, is_counted);
    }
    void measured_alone() { samples.last_was_alone(); }

    SequencesSeatOf& seat;
    const bool is_stored;
    const bool is_counted;  // in the checksum
    SeededNumbers numbers;
    std::vector<Token> tokens;
    std::vector<Location> expected;
    std::vector<Location> found;
    Samples samples;
  };

  struct TurnoverWorker {
    explicit TurnoverWorker(SequencesSeatOf& of)
        : seat(of),
          tokens(size_t{kBatch} * of.shape_.blocks_each * C::kBlockTokens),
          evicted(size_t{kBatch} * of.shape_.blocks_each),
          found(of.shape_.blocks_each) {}

    void operator()(bool is_measured) {
      const size_t each = size_t{seat.shape_.blocks_each};
      const size_t tokens_each = each * C::kBlockTokens;
      const uint64_t first = seat.next_sequence_.fetch_add(kBatch);
      for (size_t i = 0; i < kBatch; ++i)
        seat.source_.fill(std::span(tokens).subspan(i * tokens_each, tokens_each), first + i + 1);
      const uint64_t start = ticks_now();
      const size_t gone = seat.index_.evict(evicted);
      uint64_t ticks = ticks_now() - start;
      seat.ledger_.evicted(std::span(evicted).first(gone));
      const size_t stored = gone / each;  // all of them, unless another thread's evictions were in the way
      for (size_t i = 0; i < stored; ++i) {
        const std::span<const Location> where = std::span(evicted).subspan(i * each, each);
        seat.ledger_.stored(where);
        const std::span<const Token> own = std::span(tokens).subspan(i * tokens_each, tokens_each);
        typename C::Handle handle;
        const uint64_t begun = ticks_now();
        const uint32_t known = seat.index_.lookup(own, found, handle);
        seat.index_.insert(own, where, handle);
        seat.index_.release(handle);
        ticks += ticks_now() - begun;
        seat.ledger_.checked(std::span(found).first(known), std::span(found).first(0), false);
      }
      if (is_measured) samples.add(ticks / std::max<size_t>(stored, 1));
    }
    void measured_alone() { samples.last_was_alone(); }

    SequencesSeatOf& seat;
    std::vector<Token> tokens;
    std::vector<Location> evicted;
    std::vector<Location> found;
    Samples samples;
  };

  const SequencesShape shape_;
  const TokenSource& source_;
  C index_;
  Ledger ledger_;
  std::atomic<uint64_t> next_sequence_ = kNewSequences << 1;
};

}  // namespace rhizome::bench
