// What `rhizome serve` adds to llama-server's own flags (llama.cpp v0.5.0).
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cache_flags.h"
#include "cli/complaint.h"
#include "cli/parse.h"

namespace rhizome {

struct ServerCall {
  std::vector<std::string> flags;  // the person's, in order, then ours
  std::vector<std::string> notes;  // lines that the person should read
};

// --off changes nothing. What the person gave, as a flag or as LLAMA_ARG_*, is never overridden, but
// for -c under --exact, which is multiplied by the number of slots.
OrComplaint<ServerCall> server_call(const CacheFlags& flags, const std::vector<std::string>& theirs,
                                    const Environment& environment);

// The value that llama-server will see for a flag with these spellings: the last one on the line, else
// the variable's.
std::optional<std::string> server_value(const std::vector<std::string>& theirs,
                                        const std::vector<std::string_view>& spellings, const std::string& variable,
                                        const Environment& environment);

// The model file on the line or in LLAMA_ARG_MODEL.
std::optional<std::string> server_model(const std::vector<std::string>& theirs, const Environment& environment);

// Whether llama-server was told where its model is by other means, or is only asked to say something.
bool needs_no_model_file(const std::vector<std::string>& theirs, const Environment& environment);

}  // namespace rhizome
