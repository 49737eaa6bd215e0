// Small traces for tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/trace.h"

namespace rhizome::bench {

// Requests of these hash ids, each block a whole one.
inline Trace trace_of(const std::vector<std::vector<uint32_t>>& requests) {
  std::string text;
  for (const std::vector<uint32_t>& ids : requests) {
    std::string list;
    for (const uint32_t id : ids)
      list += (list.empty() ? "" : ", ") + std::to_string(id);
    text += R"({"timestamp": 0, "input_length": )" + std::to_string(ids.size() * kTraceBlockTokens) +
            R"(, "output_length": 1, "hash_ids": [)" + list + "]}\n";
  }
  std::string wrong;
  Result<Trace> trace = parse_trace(text, wrong);
  EXPECT_TRUE(trace) << wrong;
  return trace ? std::move(*trace) : Trace{};
}

// Requests of up to four blocks out of a tree of three children a block.
inline Trace random_trace(uint64_t seed, size_t requests) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<uint32_t>> all(requests);
  for (std::vector<uint32_t>& ids : all) {
    const size_t depth = 1 + random() % 4;
    for (size_t i = 0; i < depth; ++i)
      ids.push_back(static_cast<uint32_t>(random() % 3));
  }
  return trace_of(all);
}

}  // namespace rhizome::bench
