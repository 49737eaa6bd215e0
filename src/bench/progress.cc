#include "bench/progress.h"

#include <unistd.h>

#include <iostream>

namespace rhizome::bench {
namespace {

constexpr uint32_t kBarWidth = 24;

}  // namespace

Progress::Progress(std::string_view command) : command_(command), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  pause();
}

void Progress::begin(const std::string& what, uint32_t steps) {
  MutexLock lock(mutex_);
  what_ = what;
  steps_ = steps;
  done_ = 0;
  if (terminal_) {
    draw();
  } else {
    std::cerr << command_ << ": " << what << "\n";
  }
}

void Progress::step() {
  MutexLock lock(mutex_);
  if (done_ < steps_) ++done_;
  if (terminal_) draw();
}

void Progress::pause() {
  MutexLock lock(mutex_);
  clear();
}

void Progress::draw() {
  const uint32_t filled = steps_ == 0 ? 0 : kBarWidth * done_ / steps_;
  std::cerr << "\r\x1b[K[" << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] " << what_
            << std::flush;
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace rhizome::bench
