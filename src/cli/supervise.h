// Waits for the started process and passes on what this one is told.
//
// Thread-safety: to be called from the thread that spawned the child.
#pragma once

#include <cstdint>
#include <functional>

#include "machine/process.h"

namespace rhizome {

struct Ended {
  ExitStatus status;
  bool asked = false;        // this process was told to stop
  bool asked_again = false;  // and the child a second time
  bool killed = false;       // and had to be killed
};

// For a server in a process group of its own. SIGINT and SIGTERM: `stopping` is called once, the child
// gets SIGTERM and `patience_ns` to end, then SIGKILL; after two thirds of that time it is asked a second
// time. A second SIGINT ends the patience.
Ended supervise_server(Child& child, SignalWait& signals, uint64_t patience_ns, const std::function<void()>& stopping);

// For a program in this process's group. Every signal goes on to it, but those from the terminal,
// which it has got already.
ExitStatus supervise_program(Child& child, SignalWait& signals);

}  // namespace rhizome
