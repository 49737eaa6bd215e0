#include "machine/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "machine/files.h"
#include "machine/local_socket_address.h"

namespace rhizome {
namespace {

constexpr int kFirstPassed = 3;
constexpr uint64_t kPassedMax = 1 << 16;

std::optional<uint64_t> number_in(const std::optional<std::string>& text) {
  uint64_t number = 0;
  if (!text) return std::nullopt;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || rest != end || text->empty()) return std::nullopt;
  return number;
}

// The names are apart by colons, and contain none.
std::string take_name(std::string_view& names) {
  const size_t length = std::min(names.find(':'), names.size());
  std::string name(names.substr(0, length));
  names.remove_prefix(std::min(length + 1, names.size()));
  return name;
}

}  // namespace

Supervision take_supervision(const std::function<std::optional<std::string>(const char*)>& variable) {
  Supervision supervision;
  supervision.socket_path = variable("NOTIFY_SOCKET").value_or("");
  supervision.held_max = number_in(variable("FDSTORE")).value_or(0);
  if (number_in(variable("LISTEN_PID")).value_or(0) != static_cast<uint64_t>(::getpid())) return supervision;
  const uint64_t count = std::min(number_in(variable("LISTEN_FDS")).value_or(0), kPassedMax);
  const std::string all_names = variable("LISTEN_FDNAMES").value_or("");
  std::string_view names = all_names;
  for (int number = kFirstPassed; number < kFirstPassed + static_cast<int>(count); ++number) {
    // Whoever says that there is one may be wrong.
    if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) break;
    supervision.passed.push_back({take_name(names), Descriptor(number)});
  }
  return supervision;
}

Result<LocalSocket> connect_to_supervisor(const std::string& path) {
  const bool is_abstract = path.starts_with('@');
  Result<SocketAddress> address = socket_address(path);
  if (!address) return fail(address.error());
  if (is_abstract) {
    address->name.sun_path[0] = '\0';
    // Such a name is as long as the address says.
    address->bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  }
  Descriptor descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor.is_open()) return fail(error_from_errno(errno, "cannot make a socket"));
  if (::connect(descriptor.number(), address->get(), address->bytes) != 0) {
    return fail(error_from_errno(errno, "cannot reach the supervisor"));
  }
  return LocalSocket(std::move(descriptor));
}

Result<Descriptor> open_again(int descriptor) {
  Descriptor again(::open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!again.is_open()) return fail(error_from_errno(errno, "cannot open a descriptor's file again"));
  return again;
}

}  // namespace rhizome
