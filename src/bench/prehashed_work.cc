#include "bench/prehashed_work.h"

#include <algorithm>
#include <numeric>

namespace rhizome::bench {
namespace {

uint64_t mix(uint64_t word) {
  word ^= word >> 31;
  word *= 0x7fb5d329728ea185ULL;
  word ^= word >> 27;
  word *= 0x81dadef4bc2dd44dULL;
  return word ^ (word >> 33);
}

uint64_t content_hash(uint64_t hash_id, uint32_t part) {
  return mix((hash_id << 8) + part + (uint64_t{1} << 50));
}

}  // namespace

PrehashedWork prehash(const Trace& trace, size_t requests, uint32_t block_tokens) {
  const uint32_t parts = kTraceBlockTokens / block_tokens;
  PrehashedWork work;
  for (const Request& request : std::span(trace.requests).first(std::min(requests, trace.requests.size()))) {
    PrehashedRequest& made = work.requests.emplace_back();
    for (const uint32_t block : request.blocks) {
      const bool is_known = block < work.names.size() / parts;
      if (is_known) made.known += parts;
      const uint32_t parent = trace.parent[block];
      uint64_t name = parent == Trace::kNoBlock ? 0 : work.names[size_t{parent} * parts + parts - 1];
      for (uint32_t part = 0; part < parts; ++part) {
        const uint64_t hash = content_hash(trace.hash_id[block], part);
        made.hashes.push_back(hash);
        made.numbers.push_back(block * parts + part);
        name = mix(name * 31 + hash);
        if (!is_known) work.names.push_back(name);
      }
    }
    work.looked_up += made.hashes.size();
    work.longest = std::max(work.longest, static_cast<uint32_t>(made.hashes.size()));
  }
  work.at.resize(work.names.size());
  std::iota(work.at.begin(), work.at.end(), Location{0});
  return work;
}

}  // namespace rhizome::bench
