#include "contract/check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace rhizome {

void check_failed(const char* file, int line, const char* what) {
  // No allocation and no stream: the heap may be what is broken.
  char text[512];
  const int length = std::snprintf(text, sizeof text, "rhizome: %s:%d: check failed: %s\n", file, line, what);
  const size_t bytes = length < 0 ? 0 : std::min(static_cast<size_t>(length), sizeof text - 1);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, bytes);
  std::abort();
}

}  // namespace rhizome
