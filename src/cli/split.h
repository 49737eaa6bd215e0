// Tells our own flags from those of the program that is started.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/complaint.h"

namespace rhizome {

struct SplitCall {
  std::vector<std::string> ours;    // flags of the table, with their values
  std::vector<std::string> theirs;  // everything else, as it was and in order
  bool help = false;
};

// For `serve`: our flags may stand anywhere before "--"; whatever is not in the table, and all that
// follows "--", is the server's.
OrComplaint<SplitCall> split_serve(const std::vector<std::string>& arguments);

// For `run`: our flags come first; the program begins after "--", or at the first word that is no flag.
OrComplaint<SplitCall> split_run(const std::vector<std::string>& arguments);

}  // namespace rhizome
