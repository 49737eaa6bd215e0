// What is being measured now, on standard error: a bar that moves on a terminal, plain lines elsewhere.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "concurrency/mutex.h"

namespace rhizome::bench {

class Progress {
 public:
  // `command` begins each plain line. Looks whether standard error is a terminal.
  explicit Progress(std::string_view command);
  ~Progress();

  // Begins a piece of work of `steps`; ends the one before.
  void begin(const std::string& what, uint32_t steps);
  void step();
  // Takes the bar off the terminal, so that something else can be printed.
  void pause();

 private:
  void draw() REQUIRES(mutex_);
  void clear() REQUIRES(mutex_);

  const std::string command_;
  const bool terminal_;
  Mutex mutex_;
  std::string what_ GUARDED_BY(mutex_);
  uint32_t steps_ GUARDED_BY(mutex_) = 0;
  uint32_t done_ GUARDED_BY(mutex_) = 0;
  bool drawn_ GUARDED_BY(mutex_) = false;
};

}  // namespace rhizome::bench
