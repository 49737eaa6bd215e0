// What is said about a command: the source of its help, the reference page and the man page.
#pragma once

#include <span>
#include <string_view>

namespace rhizome {

struct CommandText {
  std::string_view name;
  std::string_view line;         // one line, for the list of commands
  std::string_view usage;        // after "rhizome "
  std::string_view description;  // paragraphs
  std::string_view example;      // command lines, each with a line that says what it does
  bool takes_cache_flags;
};

std::span<const CommandText> commands();
// Nothing: there is no such command.
const CommandText* find_command(std::string_view name);

}  // namespace rhizome
