// What an index must do to be measured beside others.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "block/token.h"
#include "index/index.h"

namespace rhizome::bench {

// How much a case will store at most; those that can make room beforehand do.
struct Expected {
  uint64_t blocks = 0;
  uint64_t sequences = 0;  // stretches of blocks, each stored by one insert
  // Memory is to be there when it is first used, instead of before: for those who measure how much it is.
  bool as_needed = false;
  // Uses that follow each other at once are to be told apart; for tests.
  Recency recency = Recency::kTicks;
};

// One tree of prefixes. Blocks of T::kBlockTokens tokens; `tokens` are whole blocks, from the beginning of a prompt.
// All but the constructor may be called from several threads at once; a Handle belongs to one of them.
template <class T>
concept Contestant = requires(T& index, std::span<const Token> tokens, std::span<Location> out,
                              std::span<const Location> locations, typename T::Handle& handle) {
  requires std::constructible_from<T, const Expected&>;
  requires std::default_initializable<typename T::Handle>;
  // In the names of figures.
  { T::kName } -> std::convertible_to<std::string_view>;
  { T::kBlockTokens } -> std::convertible_to<uint32_t>;
  // The number of blocks of the longest stored prefix; `out` gets their locations, `handle`, which was empty, pins
  // them.
  { index.lookup(tokens, out, handle) } -> std::same_as<uint32_t>;
  // Stores the blocks behind those that `handle` pins, each with its location out of `locations` (one for each block
  // of `tokens`), and pins all of them. What is stored already stays as it is. Returns how many were not.
  { index.insert(tokens, locations, handle) } -> std::same_as<uint32_t>;
  // Empties the handle.
  index.release(handle);
  // Removes up to out.size() blocks that nobody pins and nothing continues, least recently used first. Returns how
  // many; their locations are in `out`.
  { index.evict(out) } -> std::same_as<size_t>;
};

}  // namespace rhizome::bench
