// The supervisor of a service, such as systemd: what it passes to a process at its start, and the socket on which it
// can be told of things, among them descriptors that it is to hold and to pass to the next process of the service.
//
// Sources: sd_listen_fds(3), sd_notify(3) and "File Descriptor Store" of systemd's documentation.
//
// Thread-safety: belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/result.h"
#include "machine/descriptor.h"
#include "machine/local_socket.h"

namespace rhizome {

struct PassedDescriptor {
  std::string name;
  Descriptor descriptor;
};

struct Supervision {
  std::string socket_path = {};  // NOTIFY_SOCKET; empty: there is no supervisor
  uint64_t held_max = 0;         // FDSTORE: how many descriptors it holds; 0: none, or it does not say
  std::vector<PassedDescriptor> passed = {};
};

// What the variables say that are meant for this process. The descriptors are taken: once in its life.
Supervision take_supervision(const std::function<std::optional<std::string>(const char*)>& variable);

// For messages to it. A path that begins with '@' is an abstract name. kNotFound, kUnavailable: nobody is there.
Result<LocalSocket> connect_to_supervisor(const std::string& path);

// The file of a descriptor, opened once more, for reading. A supervisor holds what is the same opening of a file only
// once, under the name that came first.
Result<Descriptor> open_again(int descriptor);

}  // namespace rhizome
