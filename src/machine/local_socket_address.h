// What connecting and listening have in common.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include <sys/socket.h>
#include <sys/un.h>

#include "contract/result.h"
#include "machine/descriptor.h"

namespace rhizome {

struct SocketAddress {
  sockaddr_un name{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// kInvalidArgument: the path is empty, too long, or contains a zero.
Result<SocketAddress> socket_address(const std::string& path);

// `flags` as SOCK_NONBLOCK, beside those that all have. None, with errno, when there is none to be had.
Descriptor new_local_socket(int flags);

// `events` as poll() takes them. Also when the descriptor has an error or its peer has hung up: the call that was
// waited for tells. kDeadlineExceeded.
Status wait_until_ready(int descriptor, short events, uint64_t deadline_ns);

}  // namespace rhizome
