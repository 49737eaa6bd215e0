// ProcessWatch: learns of the end of a process that is not our child, without a chance of mistaking another one for it.
//
// Thread-safety: belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <utility>

#include <sys/types.h>

#include "contract/result.h"
#include "machine/descriptor.h"
#include "machine/local_socket.h"

namespace rhizome {

class ProcessWatch {
 public:
  // kNotFound: there is no such process. kInvalidArgument: a number that none has, or that of a thread. The caller
  // knows that the number is still the process's: its own child's, or its own.
  static Result<ProcessWatch> of_process(pid_t pid);

  // Of the process that connected (or, for a pair or on the connecting side, made or listened at) the other end.
  // Once it has ended: kNotFound, or a watch that says so, as the kernel has it. Before 6.5 the kernel gives only a
  // number here, which may have become another process's in the moment since: a watch that lives too long, never too
  // short.
  static Result<ProcessWatch> of_peer(const LocalSocket& socket);

  // Readable once the process has ended, with all its threads, reaped or not; stays the watch's.
  int descriptor() const { return descriptor_.number(); }

  bool has_ended() const { return wait(0); }
  // False when `deadline_ns`, on monotonic_now_ns(), passed before.
  bool wait(uint64_t deadline_ns) const;

 private:
  explicit ProcessWatch(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  Descriptor descriptor_;
};

}  // namespace rhizome
