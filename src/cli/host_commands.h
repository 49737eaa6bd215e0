// `rhizome stats`, `rhizome clear`, `rhizome top`: what a node holds, that it is to forget it, and what happens there.
//
// Thread-safety: to be called once, from the main thread.
#pragma once

#include <string>
#include <vector>

namespace rhizome {

// The exit status: 0 done, 1 there is no node, or it refused, 2 the call was wrong.
int stats_main(const std::vector<std::string>& arguments);
int clear_main(const std::vector<std::string>& arguments);
int top_main(const std::vector<std::string>& arguments);

}  // namespace rhizome
