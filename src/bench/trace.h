// A trace of requests: for each, the blocks of its prompt. Mooncake's format (FAST 2025): one JSON object a line,
// {"timestamp", "input_length", "output_length", "hash_ids"}, a hash id for each 512 tokens.
//
// Thread-safety: plain values and pure functions; load_trace() reads a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "contract/result.h"

namespace rhizome::bench {

inline constexpr uint32_t kTraceBlockTokens = 512;

struct Request {
  std::vector<uint32_t> blocks;  // numbers of distinct blocks, from the beginning of the prompt
  uint64_t input_tokens = 0;
};

// A block stands for its tokens and all before them, so the same hash id behind another prefix is another block.
struct Trace {
  static constexpr uint32_t kNoBlock = UINT32_MAX;

  std::vector<Request> requests;
  std::vector<uint32_t> parent;  // of each distinct block; its number is smaller. kNoBlock at the beginning of a prompt
  std::vector<uint64_t> hash_id;  // of each distinct block, as the trace has it
  uint64_t block_uses = 0;
  uint64_t input_tokens = 0;
  uint32_t longest = 0;  // blocks of the longest request

  uint32_t distinct() const { return static_cast<uint32_t>(parent.size()); }
};

// kInvalidArgument: `wrong` says what, and in which line.
Result<Trace> parse_trace(std::string_view text, std::string& wrong);

// Plain or compressed with zstd. kNotFound: there is no such file; else as parse_trace(). `wrong` names the file.
Result<Trace> load_trace(const std::string& path, std::string& wrong);

// Where the trace of that name that comes with the program lies; empty when none has that name.
std::string bundled_trace(const std::string& program, std::string_view name);

}  // namespace rhizome::bench
