// Two kinds of assert for programmer's mistakes. RHIZOME_CHECK stays on in every build: it guards
// what would otherwise corrupt memory or hand out wrong bytes, and costs a predictable branch.
// RHIZOME_DCHECK is for the rest and disappears in release builds.
#pragma once

namespace rhizome {

// Prints "file:line: check failed: what" with one write(2) and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace rhizome

#define RHIZOME_CHECK(condition)                                               \
  (__builtin_expect(static_cast<bool>(condition), true) ? static_cast<void>(0) \
                                                        : ::rhizome::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define RHIZOME_DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define RHIZOME_DCHECK(condition) RHIZOME_CHECK(condition)
#endif
