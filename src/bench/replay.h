// `rhizome replay TRACE`: how many blocks a cache of a given size would have hit, under each eviction order.
//
// Thread-safety: one call at a time.
#pragma once

#include <string>
#include <vector>

namespace rhizome {

struct ReplayCall {
  std::string program;                 // path of this very program: the traces that come with it lie beside it
  std::vector<std::string> arguments;  // what follows `rhizome replay`
};

// The exit status: 0 done, 1 it failed, 2 the call was wrong. Results go to standard output, progress and errors to
// standard error.
int replay_main(const ReplayCall& call);

// The text of `rhizome replay --help`.
std::string replay_help();

}  // namespace rhizome
