// `rhizome serve`, `rhizome run` and `rhizome daemon`: what follows the command's name comes in, the exit status goes
// out.
//
// Thread-safety: to be called once, from the main thread, before any other thread runs.
#pragma once

#include <string>
#include <vector>

namespace rhizome {

int serve_main(const std::vector<std::string>& arguments);
int run_main(const std::vector<std::string>& arguments);
int daemon_main(const std::vector<std::string>& arguments);

}  // namespace rhizome
