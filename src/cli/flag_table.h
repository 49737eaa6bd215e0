// The flags that `serve`, `run` and `daemon` take themselves, as data: parser, environment, help, reference
// page and completions are all made from this table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome {

struct Flag {
  std::string_view name;      // without the dashes
  std::string_view value;     // what follows it, for help; empty for a switch
  std::string_view fallback;  // in words; empty when there is none
  std::string_view text;
  bool is_list = false;  // for daemon: it may come several times, or with commas between

  bool is_switch() const { return value.empty(); }
};

std::span<const Flag> cache_flags();

// `name` may be "memory" or "--memory".
const Flag* find_flag(std::string_view name);

// "RHIZOME_BLOCK_TOKENS" for "block-tokens".
std::string environment_name(std::string_view flag);

// Flags that the surface names and this version does not have. The line says what there is instead.
std::optional<std::string> refused_flag(std::string_view argument);

}  // namespace rhizome
