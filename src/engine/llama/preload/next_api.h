// The llama.h functions behind the interposer: those that the program would have called.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <string>

#include "engine/llama/llama_api.h"

namespace rhizome {

// Looked up at the first call: behind this library in the program's search order, else in whichever loaded library
// has them (a plug-in's libllama is not in the search order). `decode` is null when there is none.
const LlamaApi& next_llama_api();

// Empty when everything behind is of the version that this library was compiled against; else what it is.
std::string other_llama_version();

}  // namespace rhizome
