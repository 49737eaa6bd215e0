// docs/reference.md and the shell completions, from the tables that the program itself works by.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

namespace rhizome {

std::string reference_page();
std::string bash_completion();
// For section 1 of the manual.
std::string man_page();

}  // namespace rhizome
