// What `rhizome bench codec` can measure: images of blocks, beside memcpy and beside zstd.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bench/kv_rows.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "contract/result.h"

namespace rhizome::bench {

struct CodecStage {
  const bool quick;
  Progress& progress;
  Report& report;
  // A model's own, one for each element type, or made up: then sizes mean nothing and are not reported. Speeds are
  // measured on the first.
  std::span<const KvRows> rows;
  const bool is_model;
  std::string from;  // "the KV of model.gguf"
};

struct CodecCase {
  std::string_view name;
  std::string_view what;
  Status (*run)(CodecStage&);
};

std::span<const CodecCase> codec_cases();

// Images against what they hold, for blocks of 16, 64 and 256 tokens.
Status run_codec_sizes(CodecStage& stage);
// One core, 8 MiB, blocks of 64 tokens.
Status run_codec_speeds(CodecStage& stage);

}  // namespace rhizome::bench
