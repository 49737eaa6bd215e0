#include "bench/figures.h"

#include <array>

namespace rhizome::bench {
namespace {

constexpr std::nullopt_t kNone = std::nullopt;

constexpr std::array<Bound, 21> kBounds = {{
    {"computed_over_ideal_turns", kNone, 1.07},
    {"computed_over_ideal_at_once", kNone, 1.07},
    {"computed_over_ideal_own_text", kNone, 1.03},
    {"computed_over_ideal_single_flight", kNone, 1.05},
    {"small_context_answered", 24, kNone},
    {"server_cpu_over_stock_turns", kNone, 0.65},
    {"ratio_ttft_warm_over_cold_1024", kNone, 0.06},
    {"exact_answers_compared", 72, kNone},
    {"exact_answers_different", kNone, 0},
    {"computed_over_ideal_turns_exact", kNone, 1.25},
    {"ratio_prefill_exact_over_default", 0.95, kNone},
    {"computed_over_ideal_swa_turns", kNone, 1.15},
    {"computed_over_ideal_swa_at_once", kNone, 1.15},
    {"ratio_prefill_on_over_off", 0.97, kNone},
    {"decode_hook_cpu_share", kNone, 0.01},
    {"ratio_decode_on_over_off", 0.95, kNone},
    {"restore_gb_per_s", 2, kNone},
    {"rss_over_budget_ratio", 0.8, 1.10},
    {"exact_restored_share", 0.6, kNone},
    {"exact_answers_compared_full", 48, kNone},
    {"ratio_decode_beside_idle_on_over_off", 0.95, kNone},
}};

}  // namespace

const Bound* find_bound(std::string_view figure) {
  for (const Bound& bound : kBounds) {
    if (bound.figure == figure) return &bound;
  }
  return nullptr;
}

bool holds(const Bound& bound, double value) {
  return (!bound.at_least || value >= *bound.at_least) && (!bound.at_most || value <= *bound.at_most);
}

}  // namespace rhizome::bench
