// Threads. They start with the signals blocked that a program may want to receive elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>
#include <thread>

#include "contract/result.h"

namespace rhizome {

// A running thread. Destruction asks it to stop and joins it.
//
// Thread-safety: belongs to one thread at a time; request_stop() may be called from anywhere.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&&) noexcept = default;
  Thread& operator=(Thread&&) noexcept = default;

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  void request_stop() { thread_.request_stop(); }

 private:
  friend Result<Thread> start_thread(std::string_view name, std::function<void(std::stop_token)> run);

  explicit Thread(std::jthread thread) : thread_(std::move(thread)) {}

  std::jthread thread_;
};

// Starts a thread under a name that debuggers and `ps` show (15 characters of it). `run` must not
// throw. kResourceExhausted when the system has no thread to give.
Result<Thread> start_thread(std::string_view name, std::function<void(std::stop_token)> run);
Result<Thread> start_thread(std::string_view name, std::function<void()> run);

// Lets another thread run, if one wants to.
void yield_thread();

// Sleeps. Not for waiting until another thread has done something: CondVar is.
void pause_thread(uint64_t nanoseconds);

}  // namespace rhizome
