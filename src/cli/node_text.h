// What is known of a node, as lines for people.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "cli/node_call.h"

namespace rhizome {

std::string stats_lines(const NodeStats& stats);

// What was known at two times; `seconds` between them.
struct NodeSpan {
  NodeStats stats;  // of the later time
  EngineCounts before;
  EngineCounts now;
  double seconds = 1;
};
// A screen of `width` columns: how full it is, and what happens in a second.
std::string top_screen(const NodeSpan& span, size_t width);
// The same in one line.
std::string top_line(const NodeSpan& span);

}  // namespace rhizome
