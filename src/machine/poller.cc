#include "machine/poller.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/clock.h"
#include "machine/files.h"

namespace rhizome {
namespace {

constexpr uint64_t kWakeToken = Poller::kTokensEnd;
constexpr size_t kBatch = 64;

uint32_t events_of(Poller::Interest interest) {
  switch (interest) {
    case Poller::Interest::kRead:
      return uint32_t{EPOLLIN} | EPOLLRDHUP;
    case Poller::Interest::kWrite:
      return EPOLLOUT;
    case Poller::Interest::kReadAndWrite:
      return uint32_t{EPOLLIN} | EPOLLRDHUP | EPOLLOUT;
    case Poller::Interest::kEnd:
      return EPOLLRDHUP;
  }
  return 0;
}

int timeout_ms(uint64_t deadline_ns) {
  constexpr uint64_t kMillisecondNs = 1'000'000;
  constexpr uint64_t kLongestMs = 60'000;  // then it is asked again
  const uint64_t now = deadline_ns > 0 ? monotonic_now_ns() : 0;
  if (now >= deadline_ns) return 0;
  const uint64_t left = deadline_ns - now;
  return static_cast<int>(std::min(kLongestMs, left / kMillisecondNs + (left % kMillisecondNs != 0 ? 1 : 0)));
}

}  // namespace

Result<Poller> Poller::create() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) return fail(error_from_errno(errno, "cannot make an epoll"));
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) return fail(error_from_errno(errno, "cannot make an eventfd"));
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.u64 = kWakeToken;
  if (::epoll_ctl(epoll.number(), EPOLL_CTL_ADD, event.number(), &wanted) != 0) {
    return fail(error_from_errno(errno, "cannot wait for an eventfd"));
  }
  return Poller(std::move(epoll), std::move(event));
}

Status Poller::control(int operation, int descriptor, uint64_t token, Interest interest) {
  RHIZOME_CHECK(token < kTokensEnd);
  epoll_event wanted{};
  wanted.events = events_of(interest);
  wanted.data.u64 = token;
  if (::epoll_ctl(epoll_.number(), operation, descriptor, &wanted) == 0) return {};
  return fail(error_from_errno(errno, "cannot wait for the descriptor"));
}

Status Poller::add(int descriptor, uint64_t token, Interest interest) {
  return control(EPOLL_CTL_ADD, descriptor, token, interest);
}

Status Poller::change(int descriptor, uint64_t token, Interest interest) {
  return control(EPOLL_CTL_MOD, descriptor, token, interest);
}

Status Poller::remove(int descriptor) {
  return control(EPOLL_CTL_DEL, descriptor, 0, Interest::kRead);
}

Result<size_t> Poller::wait(std::span<Ready> out, uint64_t deadline_ns) {
  std::array<epoll_event, kBatch> events;
  // No more than the caller has room for: what the kernel has given goes to the end of its queue.
  const int room = static_cast<int>(std::clamp<size_t>(out.size(), 1, kBatch));
  for (;;) {
    const int timeout = timeout_ms(deadline_ns);
    const int count = ::epoll_wait(epoll_.number(), events.data(), room, timeout);
    if (count < 0 && errno != EINTR) return fail(error_from_errno(errno, "cannot wait for descriptors"));
    if (count < 0 || (count == 0 && timeout > 0)) continue;
    size_t filled = 0;
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(count))) {
      if (event.data.u64 == kWakeToken) {
        uint64_t calls = 0;
        [[maybe_unused]] const ssize_t got = ::read(event_.number(), &calls, sizeof calls);
      } else if (filled < out.size()) {
        out[filled++] = {event.data.u64, (event.events & EPOLLIN) != 0, (event.events & EPOLLOUT) != 0,
                         (event.events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0};
      }
    }
    return filled;
  }
}

void Poller::wake() const {
  const uint64_t one = 1;
  // A counter that is full wakes as well.
  [[maybe_unused]] const ssize_t written = ::write(event_.number(), &one, sizeof one);
}

}  // namespace rhizome
