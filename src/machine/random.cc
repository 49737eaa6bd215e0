#include "machine/random.h"

#include <cerrno>

#include <sys/random.h>

#include "contract/check.h"

namespace rhizome {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    // Going on with bytes that are not random would be worse than ending.
    RHIZOME_CHECK(got > 0);
    out = out.subspan(static_cast<size_t>(got));
  }
}

uint64_t random_u64() {
  uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace rhizome
