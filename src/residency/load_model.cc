#include "residency/load_model.h"

#include <algorithm>
#include <cmath>

namespace rhizome {
namespace {

constexpr double kHalfLifeNs = 30e9;
// A load must be this much better: what it costs besides, and what the model does not know.
constexpr double kMarginShare = 0.1;
// Of one observation, after some two minutes.
constexpr double kForgottenWeight = 0.05;

double decay(uint64_t& last_ns, uint64_t now_ns) {
  const uint64_t passed = now_ns > last_ns && last_ns != 0 ? now_ns - last_ns : 0;
  last_ns = std::max(last_ns, now_ns);
  return std::exp2(-static_cast<double>(passed) / kHalfLifeNs);
}

}  // namespace

void LoadCost::observe(uint64_t bytes, double seconds, uint64_t now_ns) {
  const double kept = decay(last_ns_, now_ns);
  const auto size = static_cast<double>(bytes);
  weight_ = weight_ * kept + 1;
  bytes_ = bytes_ * kept + size;
  seconds_ = seconds_ * kept + seconds;
  bytes_squared_ = bytes_squared_ * kept + size * size;
  bytes_seconds_ = bytes_seconds_ * kept + size * seconds;
}

void LoadCost::forget_old(uint64_t now_ns) {
  uint64_t last_ns = last_ns_;
  if (weight_ * decay(last_ns, now_ns) < kForgottenWeight) *this = LoadCost();
}

double LoadCost::bytes_per_second() const {
  if (weight_ == 0) return 0;
  // A line needs loads of different sizes; without them all of the time is the bytes'.
  const double spread = weight_ * bytes_squared_ - bytes_ * bytes_;
  const double slope = (weight_ * bytes_seconds_ - bytes_ * seconds_) / std::max(spread, 1e-9);
  const double mean = bytes_ / std::max(seconds_, 1e-12);
  const bool is_line = spread > 1e-3 * bytes_ * bytes_ && slope > 0;
  // A latency below zero makes no sense: then the mean is the better line.
  return is_line ? std::max(1 / slope, mean) : mean;
}

double LoadCost::latency_seconds() const {
  if (weight_ == 0) return 0;
  return std::max(0.0, (seconds_ - bytes_ / std::max(bytes_per_second(), 1e-12)) / weight_);
}

double LoadCost::seconds(uint64_t bytes) const {
  if (weight_ == 0) return 0;
  return latency_seconds() + static_cast<double>(bytes) / std::max(bytes_per_second(), 1e-12);
}

void ComputeCost::observe(uint64_t tokens, uint64_t before, double seconds, uint64_t now_ns) {
  if (tokens == 0 || !(seconds > 0)) return;
  const double kept = decay(last_ns_, now_ns);
  const auto n = static_cast<double>(tokens);
  const Terms terms{1, n, n * (static_cast<double>(before) + n / 2)};
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j)
      squares_[i][j] = squares_[i][j] * kept + terms[i] * terms[j] / (seconds * seconds);
    products_[i] = products_[i] * kept + terms[i] / seconds;
  }
  ++observed_;
  largest_ = std::max(largest_, tokens);
  solve();
}

// Each observation counts by its relative error, else a few long prompts would drown all short ones. Terms that come
// out negative are left out, dearest combination first.
void ComputeCost::solve() {
  const std::array<std::array<bool, kTerms>, 7> choices{{{true, true, true},
                                                         {false, true, true},
                                                         {true, true, false},
                                                         {false, true, false},
                                                         {true, false, true},
                                                         {false, false, true},
                                                         {true, false, false}}};
  for (const auto& chosen : choices) {
    std::array<Terms, kTerms> a = squares_;
    Terms b = products_;
    for (int i = 0; i < kTerms; ++i) {
      if (chosen[i]) continue;
      for (int j = 0; j < kTerms; ++j)
        a[i][j] = a[j][i] = i == j ? 1 : 0;
      b[i] = 0;
    }
    bool solved = true;
    for (int i = 0; i < kTerms && solved; ++i) {
      for (int k = i + 1; k < kTerms; ++k) {
        const double factor = a[k][i] / a[i][i];
        for (int j = i; j < kTerms; ++j)
          a[k][j] -= factor * a[i][j];
        b[k] -= factor * b[i];
      }
      solved = !chosen[i] || a[i][i] > 1e-9 * squares_[i][i];
    }
    Terms found{};
    for (int i = kTerms - 1; i >= 0 && solved; --i) {
      double sum = b[i];
      for (int j = i + 1; j < kTerms; ++j)
        sum -= a[i][j] * found[j];
      found[i] = sum / a[i][i];
      solved = found[i] >= 0;
    }
    if (!solved) continue;
    costs_ = found;
    return;
  }
}

double ComputeCost::seconds(uint64_t tokens, uint64_t before) const {
  const auto cost = [&](uint64_t count) {
    const auto n = static_cast<double>(count);
    return costs_[0] + costs_[1] * n + costs_[2] * n * (static_cast<double>(before) + n / 2);
  };
  if (tokens <= largest_ || largest_ == 0) return cost(tokens);
  const double times = static_cast<double>(tokens) / static_cast<double>(largest_);
  return std::max(cost(tokens), cost(largest_) * times);
}

LoadPlan LoadModel::plan(const LoadQuestion& question) {
  LoadPlan plan = predict(question);
  if (!plan.load && explore_every_ != 0 && ++declined_ % explore_every_ == 0) plan.load = true;
  return plan;
}

LoadPlan LoadModel::predict(const LoadQuestion& question) const {
  LoadPlan plan;
  plan.split_compute_tokens = 0;
  if (question.tokens == 0 || !load_.is_known() || !compute_.is_known()) return plan;
  const auto load_seconds = [&](uint64_t tokens) {
    const double share = static_cast<double>(tokens) / static_cast<double>(question.tokens);
    const auto bytes = static_cast<uint64_t>(static_cast<double>(question.stored_bytes) * share);
    return tokens == 0 ? 0.0 : load_.seconds(bytes + question.bytes_in_flight);
  };
  plan.load_seconds = load_seconds(question.tokens);
  plan.compute_seconds = compute_.seconds(question.tokens, question.before);
  plan.load = plan.load_seconds * (1 + kMarginShare) < plan.compute_seconds;
  // Computing grows with the part it gets, loading shrinks: the best place is where they cross.
  uint64_t low = 0;
  uint64_t high = question.tokens / question.block_tokens;
  const auto compute_seconds = [&](uint64_t blocks) {
    return blocks == 0 ? 0.0 : compute_.seconds(blocks * question.block_tokens, question.before);
  };
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (compute_seconds(middle) < load_seconds(question.tokens - middle * question.block_tokens)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const auto longest = [&](uint64_t blocks) {
    return std::max(compute_seconds(blocks), load_seconds(question.tokens - blocks * question.block_tokens));
  };
  if (low > 0 && longest(low - 1) < longest(low)) --low;
  plan.split_compute_tokens = low * question.block_tokens;
  plan.split_seconds = longest(low);
  return plan;
}

}  // namespace rhizome
