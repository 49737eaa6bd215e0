// The other processes of `rhizome bench host`: this very program, started again, which attaches to the node that the
// bench runs and does what it is told over a socket.
//
// Thread-safety: a HostPart belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/host_control.h"
#include "bench/host_work.h"
#include "contract/result.h"
#include "machine/local_socket.h"
#include "machine/process.h"

namespace rhizome::bench {

// Whether this process was started as such a part; then its exit status.
bool is_host_part();
int run_host_part();

class HostPart {
 public:
  // `folder`: of this run. `program`: of this process.
  // `beginning` but for its socket. Returns when it is ready.
  static Result<std::unique_ptr<HostPart>> start(const std::string& program, const std::string& folder,
                                                 const std::string& node_socket, HostBeginning beginning);
  ~HostPart();
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  // Does it, and waits for it.
  Result<HostTally> ask(const HostOrder& order, std::span<const uint32_t> agents = {});
  // Of a node: kUsage or kClear.
  Result<HostUsage> ask_node(HostVerb verb);
  // The two halves of ask(), for who has something to do meanwhile.
  Status tell(const HostOrder& order, std::span<const uint32_t> agents = {});
  Result<HostTally> hear(uint64_t patience_ns = 10 * kHostPatienceNs);
  // Answers the questions of a kSocketLookUp by looking up in `store`, until its tally comes.
  Result<HostTally> answer_look_ups(const HostOrder& order, Store& store, Root root);
  // Once it has been told to end itself.
  ExitStatus ended() { return child_.wait(); }
  // In good order.
  void stop() {
    control_.close();
    static_cast<void>(child_.wait_for(kHostPatienceNs));
  }
  // SIGKILL; it is gone when this returns.
  void kill() { child_.terminate(0); }
  Child& child() { return child_; }

 private:
  HostPart(Child child, LocalSocket socket) : child_(std::move(child)), control_(std::move(socket)) {}

  Child child_;
  HostControl control_;
};

// Of a process; 0 where the kernel does not say.
uint64_t proportional_set_bytes(int pid);

}  // namespace rhizome::bench
