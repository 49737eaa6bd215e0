// Looks at a model file before a server is started on it, so that what is wrong with it is said in one
// line and not in the middle of an engine's log.
//
// Thread-safety: reads the file; keeps nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "contract/result.h"

namespace rhizome {

struct GgufHead {
  // What the file must at least hold by its own table of tensors; 0 when the table says nothing.
  uint64_t bytes_least = 0;
  // Elements of K and V together for one token, for models whose layers are all alike; 0: not known.
  uint64_t kv_elements_per_token = 0;
};

// Reads the head from the file's first bytes. Nothing: more bytes are needed. kInvalidArgument: not a
// GGUF file. A head that makes no sense is left to the engine: it comes back as far as it was understood.
Result<std::optional<GgufHead>> parse_gguf_head(std::span<const std::byte> bytes);

// kNotFound, kPermissionDenied, kInvalidArgument (no regular file, not GGUF), kDataLoss (truncated).
// The reason says it in words that may follow the file's name.
Result<GgufHead> check_model_file(const std::string& path);

}  // namespace rhizome
