// For tests: the table of the libllama that the program is linked with.
#pragma once

#include "engine/llama/llama_api.h"

namespace rhizome {

inline LlamaApi linked_llama_api() {
  LlamaApi api;
#define RHIZOME_LLAMA_FILL(name) api.name = &::llama_##name;
  RHIZOME_LLAMA_FUNCTIONS(RHIZOME_LLAMA_FILL)
#undef RHIZOME_LLAMA_FILL
  return api;
}

}  // namespace rhizome
