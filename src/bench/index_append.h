// The case `append` for one contestant: sequences that grow by a block at a time while their handles are held.
#pragma once

#include <cstdint>
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

struct AppendShape {
  uint32_t sessions = 0;
  uint32_t blocks_at_first = 0;
  uint32_t blocks_at_most = 0;
};

class AppendSeat {
 public:
  virtual ~AppendSeat() = default;
  virtual std::string_view name() const = 0;
  // Every session grows by one block, in turn; the threads have sessions of their own.
  virtual Result<Samples> append(uint32_t threads) = 0;
  // Look-up and release of whole sessions as they have grown.
  virtual Result<Samples> look_up(uint32_t threads) = 0;
  virtual const Ledger& ledger() const = 0;
};

template <Contestant C>
class AppendSeatOf final : public AppendSeat {
 public:
  AppendSeatOf(const AppendShape& shape, const TokenSource& source)
      : shape_(shape),
        source_(source),
        index_({uint64_t{shape.sessions} * shape.blocks_at_most, shape.sessions}),
        ledger_(size_t{shape.sessions} * shape.blocks_at_most),
        handles_(shape.sessions),
        blocks_(shape.sessions, shape.blocks_at_first) {
    Worker worker(*this, 0, 1);
    for (uint32_t session = 0; session < shape.sessions; ++session) {
      worker.take(session);
      index_.lookup(worker.tokens_of_session(), worker.found, handles_[session]);
      index_.insert(worker.tokens_of_session(), worker.where_of_session(), handles_[session]);
    }
  }

  ~AppendSeatOf() override {
    for (typename C::Handle& handle : handles_)
      index_.release(handle);
  }

  std::string_view name() const override { return C::kName; }
  const Ledger& ledger() const override { return ledger_; }

  Result<Samples> append(uint32_t threads) override { return run_all<AppendWorker>(threads); }
  Result<Samples> look_up(uint32_t threads) override { return run_all<LookupWorker>(threads); }

 private:
  // Goes through the sessions `first`, `first + step`, ...
  struct Worker {
    Worker(AppendSeatOf& of, uint32_t first, uint32_t of_step)
        : seat(of),
          next(first),
          step(of_step),
          tokens(size_t{of.shape_.blocks_at_most} * C::kBlockTokens),
          where(of.shape_.blocks_at_most),
          found(of.shape_.blocks_at_most) {}

    // Its tokens and locations as far as they go now.
    void take(uint32_t of_session) {
      session = of_session;
      seat.source_.fill(tokens_of_session(), uint64_t{session} + 1);
      std::iota(where.begin(), where.end(), session * seat.shape_.blocks_at_most);
    }
    void take_next() {
      take(next);
      next = next + step < seat.shape_.sessions ? next + step : next % step;
    }
    std::span<Token> tokens_of_session() {
      return std::span(tokens).first(size_t{seat.blocks_[session]} * C::kBlockTokens);
    }
    void measured_alone() { samples.last_was_alone(); }
    std::span<const Location> where_of_session() { return std::span(where).first(seat.blocks_[session]); }

    AppendSeatOf& seat;
    uint32_t next;
    const uint32_t step;
    uint32_t session = 0;
    std::vector<Token> tokens;
    std::vector<Location> where;
    std::vector<Location> found;
    Samples samples;
  };

  struct LookupWorker : Worker {
    using Worker::Worker;
    void operator()(bool is_measured) {
      this->take_next();
      typename C::Handle handle;
      const uint64_t start = ticks_now();
      const uint32_t blocks = this->seat.index_.lookup(this->tokens_of_session(), this->found, handle);
      this->seat.index_.release(handle);
      const uint64_t ticks = ticks_now() - start;
      if (is_measured) this->samples.add(ticks);
      this->seat.ledger_.checked(std::span(this->found).first(blocks), this->where_of_session(), is_measured);
    }
  };

  struct AppendWorker : LookupWorker {
    using LookupWorker::LookupWorker;
    void operator()(bool is_measured) {
      if (!is_measured) {  // another thread still grows its sessions: these stay as long as they are
        LookupWorker::operator()(false);
        return;
      }
      ++this->seat.blocks_[this->next];
      this->take_next();
      typename C::Handle& handle = this->seat.handles_[this->session];
      const uint64_t start = ticks_now();
      this->seat.index_.insert(this->tokens_of_session(), this->where_of_session(), handle);
      this->samples.add(ticks_now() - start);
    }
  };

  template <class Kind>
  Result<Samples> run_all(uint32_t threads) {
    std::vector<Kind> workers;
    workers.reserve(threads);
    for (uint32_t thread = 0; thread < threads; ++thread)
      workers.emplace_back(*this, thread, threads);
    if (const Status ran = run_together(workers, shape_.sessions / threads, shape_.sessions / threads); !ran)
      return fail(ran.error());
    Samples all;
    for (const Kind& worker : workers)
      all.add(worker.samples);
    return all;
  }

  const AppendShape shape_;
  const TokenSource& source_;
  C index_;
  Ledger ledger_;
  std::vector<typename C::Handle> handles_;
  std::vector<uint32_t> blocks_;  // of each session, stored
};

}  // namespace rhizome::bench
