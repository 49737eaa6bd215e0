// From words, environment and file to named values: flags before RHIZOME_* before --config FILE.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_text.h"
#include "cli/complaint.h"

namespace rhizome {

// The value of an environment variable; nothing when it is not set or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// This process's own.
std::optional<std::string> process_environment(const std::string& name);

struct GivenValue {
  std::string text;    // "true" or "false" for a switch; of a list, with commas between
  std::string source;  // "--memory", "RHIZOME_MEMORY" or "memory in FILE", for complaints
};
// By the flag's name without dashes; holds only what was given somewhere.
using Given = std::map<std::string, GivenValue, std::less<>>;

OrComplaint<Given> parse_flags(const CommandText& command, const std::vector<std::string>& arguments,
                               const Environment& environment);

}  // namespace rhizome
