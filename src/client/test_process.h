// For tests with other processes: a part of this program in a process of its own, and waiting for what it does.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/host.h"
#include "machine/process.h"
#include "machine/thread.h"

namespace rhizome {

// Empty: it is not set.
inline std::string variable_text(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Runs the tests of that filter, which look at the environment for whether they are meant. Ends with this process.
inline Child start_test_process(const std::string& filter,
                                std::vector<std::pair<std::string, std::string>> environment) {
  SpawnOptions spawn;
  spawn.environment = std::move(environment);
  spawn.stdout_path = "/dev/null";
  spawn.die_with_parent = true;
  spawn.death_signal = SIGKILL;
  Result<Child> child = Child::spawn({*own_executable_path(), "--gtest_filter=" + filter}, spawn);
  EXPECT_TRUE(child);
  return std::move(*child);
}

// What happens in another process or thread, where there is nothing to be waited for. False: not in a minute.
template <class Condition>
bool comes_true(const Condition& condition) {
  constexpr uint64_t kPatienceNs = 60'000'000'000;
  constexpr uint64_t kLookAgainNs = 200'000;
  for (const uint64_t began = monotonic_now_ns(); monotonic_now_ns() < began + kPatienceNs;
       pause_thread(kLookAgainNs)) {
    if (condition()) return true;
  }
  return false;
}

}  // namespace rhizome
