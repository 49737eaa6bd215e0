// The program: finds the command and hands over.
#pragma once

#include <string>
#include <vector>

namespace rhizome {

// `words` without the program's own name. The exit status: 0 done, 1 it failed, 2 the call was wrong;
// of `run`, the program's own.
int program_main(const std::vector<std::string>& words);

// What --version prints: the program's version, the engine's, those of the formats.
std::string version_text();

}  // namespace rhizome
