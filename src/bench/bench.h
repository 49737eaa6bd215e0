// `rhizome bench NAME`: benchmarks that start what they measure themselves, beside the structure
// they are compared against. The one face of this layer.
//
// Thread-safety: one call at a time; it starts and joins its own threads, and handles SIGINT and
// SIGTERM while it runs (every server that it started is stopped before it returns).
#pragma once

#include <string>
#include <vector>

namespace rhizome {

struct BenchCall {
  std::string program;                 // path of this very program: it is started again as `program serve ...`
  std::vector<std::string> arguments;  // what follows `rhizome bench`: NAME [CASE...] [flags]
};

// The exit status: 0 done, 1 it failed or an answer differed, 2 the call was wrong. Results go to standard output,
// progress and errors to standard error.
int bench_main(const BenchCall& call);

// The text of `rhizome bench --help`, for man pages and completions.
std::string bench_help();

}  // namespace rhizome
