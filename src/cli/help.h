// What --help prints, from the tables of commands and flags.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_text.h"

namespace rhizome {

std::string program_help();
std::string command_help(const CommandText& command);

// Lines of at most `width` characters, broken at spaces; every line but the first begins with `indent` spaces.
// Line ends in the text stay.
std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace rhizome
