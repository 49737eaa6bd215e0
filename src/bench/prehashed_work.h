// A trace as a router sees it: for each request the hashes of its blocks' contents, and for each distinct block the
// hash that events name it by. The programs in bench/peers make the same hashes of content.
//
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/trace.h"
#include "index/index_types.h"

namespace rhizome::bench {

struct PrehashedRequest {
  std::vector<uint64_t> hashes;   // of all its blocks
  std::vector<uint32_t> numbers;  // of the same blocks: which of the distinct ones they are
  uint32_t known = 0;             // so many, at the beginning, were stored by requests before
};

struct PrehashedWork {
  std::vector<PrehashedRequest> requests;
  std::vector<uint64_t> names;  // of each distinct block
  std::vector<Location> at;     // its number, for those who choose locations themselves
  uint64_t looked_up = 0;       // blocks of all requests
  uint32_t longest = 0;         // blocks of one request

  uint64_t stored() const { return names.size(); }
  // A request's blocks that are new have numbers that follow each other.
  std::span<const uint64_t> new_names(const PrehashedRequest& request) const { return new_of(request, names); }
  std::span<const Location> new_locations(const PrehashedRequest& request) const { return new_of(request, at); }

 private:
  template <class T>
  static std::span<const T> new_of(const PrehashedRequest& request, const std::vector<T>& all) {
    const size_t count = request.numbers.size() - request.known;
    if (count == 0) return {};
    return std::span(all).subspan(request.numbers[request.known], count);
  }
};

// The first `requests` of the trace, each of its blocks as blocks of `block_tokens` tokens, which divides 512.
PrehashedWork prehash(const Trace& trace, size_t requests, uint32_t block_tokens);

}  // namespace rhizome::bench
