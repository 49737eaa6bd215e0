#include "bench/figures.h"

#include <array>

namespace rhizome::bench {
namespace {

constexpr std::nullopt_t kNone = std::nullopt;

constexpr std::array<Bound, 72> kBounds = {{
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
    {"ratio_lookup_vs_lock_tree_1t", 15, kNone},
    {"ratio_lookup_vs_lock_tree_2t", 25, kNone},
    {"ratio_exact_lookup_vs_lock_tree_1t", 12, kNone},
    {"ratio_exact_lookup_vs_lock_tree_2t", 20, kNone},
    {"ratio_cycle_vs_lock_tree_1t", 20, kNone},
    {"ratio_cycle_vs_lock_tree_2t", 40, kNone},
    {"ratio_exact_cycle_vs_lock_tree_1t", 15, kNone},
    {"ratio_exact_cycle_vs_lock_tree_2t", 30, kNone},
    {"ratio_lookup_vs_hash_map_1t", 15, kNone},
    {"ratio_lookup_vs_hash_map_2t", 25, kNone},
    {"ratio_lookup_vs_kernel", kNone, 1.5},
    {"ratio_fingerprint_vs_xxh3_128_chained_b16", 6, kNone},
    {"ratio_lookup_two_threads_over_one", 1.8, kNone},
    {"ratio_trace_vs_lock_tree", 60, kNone},
    {"ratio_exact_trace_vs_lock_tree", 8, kNone},
    {"ratio_evict_batch64_over_lock_tree", kNone, 0.25},
    {"index_bytes_per_block_r64", kNone, 16},
    {"index_bytes_per_block_r16", kNone, 24},
    {"index_bytes_per_block_r1", kNone, 150},
    {"exact_bytes_per_block_b16", kNone, 90},
    {"ratio_miss_first_block_over_memory_load", kNone, 2},
    {"wrong_matches", kNone, 0},
    {"ratio_ttft_restart_over_cold_1024", kNone, 0.2},
    {"ratio_ttft_restart_over_warm_1024", kNone, 2},
    {"hit_copied_bytes", kNone, 0},
    {"store_wrong_blocks", kNone, 0},
    {"e3_ratio_bf16", 1.37, kNone},
    {"ratio_e3_decode_vs_memcpy", 0.65, kNone},
    {"ratio_e3_encode_vs_memcpy", 0.35, kNone},
    {"ratio_e3_encode_vs_zstd1_planes", 10, kNone},
    {"ratio_erans_vs_e3_size", kNone, 0.97},
    {"ratio_read_1mib_vs_raw", 0.9, kNone},
    {"ratio_write_vs_raw", 0.85, kNone},
    {"ratio_recovery_vs_footer_read", kNone, 3},
    {"ratio_verify_vs_read_sweep", kNone, 1.5},
    {"ratio_lookup_pin_attached_over_embedded", kNone, 1.3},
    {"ratio_lookup_pin_attached_over_embedded_evicting", kNone, 1.3},
    {"attached_recency_share", 0.7, kNone},
    {"hit_syscalls", kNone, 0},
    {"ratio_attached_over_socket_lookup", kNone, 0.1},
    {"ratio_pointer_vs_copy_1mib", kNone, 0.05},
    {"ratio_store_vs_memcpy", 0.5, kNone},
    {"pss_two_readers_over_one", kNone, 1.1},
    {"restart_warm_share", 0.99, kNone},
    {"kill_cases", 200, kNone},
    {"kill_leaks", kNone, 0},
    {"kill_wrong_bytes", kNone, 0},
    {"kill_hangs", kNone, 0},
    {"p99_ratio_with_flooding_client", kNone, 1.5},
    {"second_server_cached_share", 0.95, kNone},
    {"computed_over_one_prompt_4_engines", kNone, 1.15},
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
