// What kind of context the engine made: asked of the engine itself, once, before the program uses it.
// Two tokens are computed in a sequence nobody uses, its state is parsed strictly, and the cache is
// cleared again. What is not understood is passed through untouched.
//
// Thread-safety: the calls use the context; the caller owns it.
#pragma once

#include <cstdint>

#include "contract/result.h"
#include "engine/llama/llama_api.h"
#include "engine/llama/seq_blob.h"

namespace rhizome {

// How the connector wants a context to be made.
struct ContextPlan {
  llama_context_params params;  // what to give to llama_init_from_model
  bool attach = false;          // false: `why_not` says why the context is passed through
  const char* why_not = "";
  bool unified = false;
  bool exact = false;
  int32_t scratch = -1;          // unified: the sequence that only the connector uses
  uint32_t sequences_count = 0;  // that the program may use
};

// Decides from the model and the parameters alone. Never fails: what cannot be attached is passed through.
ContextPlan plan_context(const LlamaApi& api, const llama_model* model, const llama_context_params& params, bool exact);

struct ContextShape {
  BlobShape blob;
  uint32_t window = 0;        // tokens of the sliding window, 0: none
  uint32_t cells = 0;         // rows that the (full) cache can hold, for one sequence if not unified
  uint32_t window_cells = 0;  // the same for the window's cache; only a lower bound is known
};

// kUnimplemented: recurrent, not removable, or laid out in a way that is not understood.
Result<ContextShape> probe_context(const LlamaApi& api, llama_context* context, const ContextPlan& plan);

inline constexpr uint32_t kProbeTokens = 2;

}  // namespace rhizome
