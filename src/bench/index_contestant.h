// An Index (index/index.h, or a class with its face) as a contestant. All that depends on that face stands here.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/contestant.h"
#include "contract/check.h"

namespace rhizome::bench {

inline constexpr std::string_view kBenchKeyspace = "bench";

// The policies in the names of figures: the one that compares tokens has a word of its own.
template <class AnyIndex>
inline constexpr std::string_view kPolicyName = "";
template <>
inline constexpr std::string_view kPolicyName<Index> = "exact";
template <>
inline constexpr std::string_view kPolicyName<FingerprintIndex> = "h64";

template <class AnyIndex, uint32_t kBlock>
class IndexContestant {
 public:
  static constexpr std::string_view kName = kPolicyName<AnyIndex>;
  static constexpr uint32_t kBlockTokens = kBlock;

  struct Handle {
    rhizome::Handle pin;
    uint32_t blocks = 0;
  };

  explicit IndexContestant(const Expected& expected)
      : index_(IndexOptions{.block_tokens = kBlock, .memory_bytes = kAddressSpace, .recency = expected.recency}),
        root_(open()) {
    if (expected.as_needed) return;
    // With a quarter more than the runs take when they have just been stored: cycles come and go.
    const uint64_t payload = sizeof(Location) + (std::same_as<AnyIndex, Index> ? kBlock * sizeof(Token) : 8);
    index_.prefault((expected.blocks * payload + expected.sequences * 2 * 64) * 5 / 4);
  }

  uint32_t lookup(std::span<const Token> tokens, std::span<Location> out, Handle& handle) {
    Match match = index_.lookup(root_, tokens, out);
    handle.pin = std::move(match.handle);
    handle.blocks = match.blocks;
    return match.blocks;
  }

  uint32_t insert(std::span<const Token> tokens, std::span<const Location> locations, Handle& handle) {
    const std::span<const Location> behind = locations.subspan(handle.blocks);
    if (behind.empty()) return 0;
    static thread_local std::vector<Location> canonical;
    if (canonical.size() < behind.size()) canonical.resize(behind.size());
    Result<Inserted> inserted =
        index_.insert(root_, handle.pin, tokens, handle.blocks, behind, std::span(canonical).first(behind.size()));
    RHIZOME_CHECK(inserted);
    handle.pin = std::move(inserted->handle);
    handle.blocks = static_cast<uint32_t>(locations.size());
    return static_cast<uint32_t>(behind.size()) - inserted->stored_before;
  }

  void release(Handle& handle) {
    RHIZOME_CHECK(index_.release(std::move(handle.pin)));
    handle.blocks = 0;
  }

  size_t evict(std::span<Location> out) { return index_.evict(out); }

 private:
  Root open() {
    const Result<Root> root = index_.open(std::as_bytes(std::span(kBenchKeyspace)));
    RHIZOME_CHECK(root);
    return *root;
  }

  static constexpr uint64_t kAddressSpace = uint64_t{16} << 30;

  AnyIndex index_;
  Root root_;
};

}  // namespace rhizome::bench
