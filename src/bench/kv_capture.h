// A model's KV: llama-server reads a text and saves what its cache then holds.
//
// Thread-safety: as Fleet::start(): any thread that outlives the call.
#pragma once

#include <string>

#include "bench/kv_rows.h"
#include "bench/server_process.h"
#include "contract/result.h"

namespace rhizome::bench {

struct CapturePlan {
  std::string model;
  ElementType element_type = ElementType::kBf16;  // of the cache: bf16 or f16
  bool quick = false;                             // some 300 tokens instead of 2,200, on one thread
};

// Fails when no server starts or answers, and when its rows are no planes of one width.
Result<KvRows> capture_kv(Fleet& fleet, const CapturePlan& plan);

}  // namespace rhizome::bench
