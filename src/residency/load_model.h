// Load or compute: what blocks below memory would cost to load, what the engine would need to compute them again, and
// which part to leave to which. Both sides are calibrated from what is observed.
//
//   load(bytes)           = latency + bytes / bandwidth
//   compute(n, behind p)  = c0 + c1 n + c2 n (p + n / 2)      attention reads all that is before
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstdint>

namespace rhizome {

// What loading from one tier costs. Observations lose half of their weight in 30 seconds.
class LoadCost {
 public:
  void observe(uint64_t bytes, double seconds, uint64_t now_ns);
  // Nothing is known any more once the last observations are some minutes old: a tier that is not asked since it was
  // slow would be slow for ever.
  void forget_old(uint64_t now_ns);
  bool is_known() const { return weight_ > 0; }
  double seconds(uint64_t bytes) const;
  double latency_seconds() const;
  double bytes_per_second() const;

 private:
  // Weighted sums for a line through (bytes, seconds).
  double weight_ = 0;
  double bytes_ = 0;
  double seconds_ = 0;
  double bytes_squared_ = 0;
  double bytes_seconds_ = 0;
  uint64_t last_ns_ = 0;
};

// What computing costs: least squares over (1, n, n (p + n / 2)), with the same forgetting, no negative costs. Beyond
// the longest prompt that was observed it grows with the tokens at least: short ones look as if tokens were free.
class ComputeCost {
 public:
  void observe(uint64_t tokens, uint64_t before, double seconds, uint64_t now_ns);
  bool is_known() const { return observed_ > 0; }
  double seconds(uint64_t tokens, uint64_t before) const;

 private:
  static constexpr int kTerms = 3;
  using Terms = std::array<double, kTerms>;
  void solve();

  std::array<Terms, kTerms> squares_{};
  Terms products_{};
  Terms costs_{};
  uint64_t observed_ = 0;
  uint64_t largest_ = 0;  // tokens of one observation
  uint64_t last_ns_ = 0;
};

struct LoadQuestion {
  uint64_t tokens = 0;           // that are below and nowhere else
  uint64_t before = 0;           // that are there without a load
  uint64_t stored_bytes = 0;     // what has to be moved for `tokens`
  uint64_t bytes_in_flight = 0;  // that are to come before
  uint32_t block_tokens = 1;
};

struct LoadPlan {
  bool load = true;         // all of it; else none
  double load_seconds = 0;  // predicted; 0 when nothing was observed yet
  double compute_seconds = 0;
  // Where the two would meet if the engine computed from the front while the rest is loaded from the back: compute so
  // many tokens, a multiple of block_tokens, load the others.
  uint64_t split_compute_tokens = 0;
  double split_seconds = 0;
};

class LoadModel {
 public:
  // Every `explore_every`-th time that computing looks better it is loaded all the same, so that a tier that became
  // faster is noticed. 0: never.
  explicit LoadModel(uint32_t explore_every = 64) : explore_every_(explore_every) {}

  LoadPlan plan(const LoadQuestion& question);
  // The same without ever trying what looks worse: for those who only ask.
  LoadPlan predict(const LoadQuestion& question) const;

  void observe_load(uint64_t bytes, double seconds, uint64_t now_ns) { load_.observe(bytes, seconds, now_ns); }
  void observe_compute(uint64_t tokens, uint64_t before, double seconds, uint64_t now_ns) {
    compute_.observe(tokens, before, seconds, now_ns);
  }
  // Before plan(), predict() and load_cost() are believed.
  void forget_old_loads(uint64_t now_ns) { load_.forget_old(now_ns); }
  const LoadCost& load_cost() const { return load_; }
  const ComputeCost& compute_cost() const { return compute_; }

 private:
  const uint32_t explore_every_;
  uint32_t declined_ = 0;
  LoadCost load_;
  ComputeCost compute_;
};

}  // namespace rhizome
