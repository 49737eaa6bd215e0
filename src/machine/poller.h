// Poller: waits for many descriptors at once (epoll). A descriptor is named by a token of the caller's choice.
//
// Thread-safety: belongs to one thread at a time; wake() may be called from anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "contract/result.h"
#include "machine/descriptor.h"

namespace rhizome {

class Poller {
 public:
  // kEnd: nothing but that the peer has hung up.
  enum class Interest : uint8_t { kRead, kWrite, kReadAndWrite, kEnd };

  struct Ready {
    uint64_t token = 0;
    bool is_readable = false;
    bool is_writable = false;
    bool has_ended = false;  // the peer has hung up, or the descriptor has an error; something may still be readable
  };

  static constexpr uint64_t kTokensEnd = UINT64_MAX;

  static Result<Poller> create();

  // Until remove(); the descriptor stays the caller's, and must be removed before it is closed. kAlreadyExists: it is
  // here already. kInvalidArgument, kPermissionDenied: what cannot be waited for. `token` is below kTokensEnd.
  Status add(int descriptor, uint64_t token, Interest interest);
  // Replaces both. kNotFound: it is not here.
  Status change(int descriptor, uint64_t token, Interest interest);
  Status remove(int descriptor);

  // What is ready, up to out.size(), for as long as it is: the same again in the next call when nothing was done about
  // it; all get their turn. Waits until `deadline_ns` on monotonic_now_ns() (0: not at all), and up to a millisecond
  // more, when nothing is; wake() ends it early, with whatever is ready or nothing.
  Result<size_t> wait(std::span<Ready> out, uint64_t deadline_ns);

  // Ends a wait(), or the next one.
  void wake() const;

 private:
  Poller(Descriptor epoll, Descriptor event) : epoll_(std::move(epoll)), event_(std::move(event)) {}
  Status control(int operation, int descriptor, uint64_t token, Interest interest);

  Descriptor epoll_;
  Descriptor event_;
};

}  // namespace rhizome
