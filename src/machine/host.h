// What the machine has and what a process uses of it.
//
// Thread-safety: may be called from any thread; reads /proc and /sys anew every time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "contract/result.h"

namespace rhizome {

// Memory that this process may use: the machine's, or its control group's limit when that is lower.
uint64_t total_memory_bytes();

// The lowest memory limit on the way from a process's control group to the root, for versions 1
// and 2; UINT64_MAX when there is none. `membership` is what /proc/self/cgroup says, `root` is where the
// control groups are mounted.
uint64_t cgroup_memory_limit_bytes(std::string_view membership, const std::string& root);

// CPUs that the calling thread may run on.
uint32_t cpu_count();

// Resident memory; kNotFound when there is no such process.
Result<uint64_t> process_rss_bytes(pid_t pid);
// User and system time of all its threads; kNotFound when there is no such process.
Result<double> process_cpu_seconds(pid_t pid);
// False for a zombie: it does nothing any more.
bool is_process_alive(pid_t pid);

pid_t own_pid();
// Absolute path of the running program.
Result<std::string> own_executable_path();

}  // namespace rhizome
