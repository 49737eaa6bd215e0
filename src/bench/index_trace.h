// The case `trace` for one contestant: a trace of requests, each block of 512 tokens as it would come.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
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
#include "bench/trace.h"

namespace rhizome::bench {

struct TraceShape {
  uint64_t capacity_tokens = 0;
  uint32_t in_flight = 64;  // requests whose handles are held, over all threads
  uint32_t threads = 1;
};

struct TraceTotals {
  uint64_t looked_up = 0;  // blocks, like the following
  uint64_t matched = 0;
  uint64_t stored = 0;
  uint64_t evicted = 0;
  uint64_t requests = 0;
  double ns = 0;  // of all threads, in operations of the index

  double block_operations() const { return static_cast<double>(matched + stored + evicted); }
};

class TraceSeat {
 public:
  virtual ~TraceSeat() = default;
  virtual std::string_view name() const = 0;
  // Requests [begin, end), after those before.
  virtual Status play(size_t begin, size_t end) = 0;
  // Releases what is in flight; the last call.
  virtual TraceTotals finish() = 0;
  virtual const Ledger& ledger() const = 0;
};

template <Contestant C>
class TraceSeatOf final : public TraceSeat {
 public:
  TraceSeatOf(const TraceShape& shape, const Trace& trace, size_t requests, const TokenSource& source)
      : trace_(trace),
        source_(source),
        capacity_(static_cast<int64_t>(shape.capacity_tokens / C::kBlockTokens)),
        index_({std::min(uint64_t{trace.distinct()} * kEach, shape.capacity_tokens / C::kBlockTokens), requests * 2}),
        ledger_(0) {
    workers_.reserve(shape.threads);
    for (uint32_t thread = 0; thread < shape.threads; ++thread)
      workers_.emplace_back(*this, std::max(1U, shape.in_flight / shape.threads));
  }

  std::string_view name() const override { return C::kName; }
  const Ledger& ledger() const override { return ledger_; }

  Status play(size_t begin, size_t end) override {
    next_ = begin;
    end_ = end;
    // Whoever is free takes the next request, so that one thread may play them all.
    const uint32_t calls = static_cast<uint32_t>(end - begin);
    return run_together(workers_, calls, calls);
  }

  TraceTotals finish() override {
    TraceTotals all;
    for (Worker& worker : workers_) {
      for (typename C::Handle& handle : worker.in_flight)
        index_.release(handle);
      all.looked_up += worker.totals.looked_up;
      all.matched += worker.totals.matched;
      all.stored += worker.totals.stored;
      all.evicted += worker.totals.evicted;
      all.requests += worker.totals.requests;
      all.ns += static_cast<double>(worker.ticks) * ns_per_tick();
    }
    return all;
  }

 private:
  static constexpr uint32_t kEach = kTraceBlockTokens / C::kBlockTokens;

  struct Worker {
    Worker(TraceSeatOf& of, uint32_t requests_in_flight)
        : seat(of),
          tokens(size_t{of.trace_.longest} * kTraceBlockTokens),
          where(size_t{of.trace_.longest} * kEach),
          found(where.size()),
          in_flight(requests_in_flight) {}

    void operator()(bool is_measured) {
      if (!is_measured) return;
      const size_t at = seat.next_.fetch_add(1);
      if (at < seat.end_) play(seat.trace_.requests[at]);
    }

    void measured_alone() {}

    // A block of the trace always has the same locations, so that every look-up can be checked.
    void spell(const Request& request) {
      for (size_t i = 0; i < request.blocks.size(); ++i) {
        const uint32_t block = request.blocks[i];
        seat.source_.fill(std::span(tokens).subspan(i * kTraceBlockTokens, kTraceBlockTokens), uint64_t{block} + 1);
        const std::span<Location> own = std::span(where).subspan(i * kEach, kEach);
        std::iota(own.begin(), own.end(), block * kEach);
      }
    }

    void play(const Request& request) {
      spell(request);
      const uint32_t blocks = static_cast<uint32_t>(request.blocks.size()) * kEach;
      const std::span<const Token> asked = std::span(tokens).first(size_t{blocks} * C::kBlockTokens);
      const std::span<const Location> expected = std::span(where).first(blocks);
      typename C::Handle handle;
      const uint64_t start = ticks_now();
      const uint32_t known = seat.index_.lookup(asked, found, handle);
      const uint32_t stored = seat.index_.insert(asked, expected, handle);
      typename C::Handle older = std::exchange(in_flight[oldest], std::move(handle));
      seat.index_.release(older);
      const size_t gone = make_room(seat.resident_.fetch_add(stored) + stored - seat.capacity_);
      ticks += ticks_now() - start;
      oldest = (oldest + 1) % in_flight.size();
      totals.looked_up += blocks;
      totals.matched += known;
      totals.stored += stored;
      totals.evicted += gone;
      ++totals.requests;
      seat.ledger_.checked(std::span(found).first(known), expected.first(known), true);
    }

    size_t make_room(int64_t excess) {
      if (excess <= 0) return 0;
      if (evicted.size() < static_cast<size_t>(excess)) evicted.resize(static_cast<size_t>(excess));
      const size_t gone = seat.index_.evict(std::span(evicted).first(static_cast<size_t>(excess)));
      seat.resident_.fetch_sub(static_cast<int64_t>(gone));
      return gone;
    }

    TraceSeatOf& seat;
    std::vector<Token> tokens;
    std::vector<Location> where;
    std::vector<Location> found;
    std::vector<Location> evicted;
    std::vector<typename C::Handle> in_flight;
    size_t oldest = 0;
    uint64_t ticks = 0;
    TraceTotals totals;
  };

  const Trace& trace_;
  const TokenSource& source_;
  const int64_t capacity_;
  C index_;
  Ledger ledger_;
  std::vector<Worker> workers_;
  std::atomic<size_t> next_ = 0;
  size_t end_ = 0;
  std::atomic<int64_t> resident_ = 0;
};

}  // namespace rhizome::bench
