// For tests: tries to change memory that another process has handed over.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine/descriptor.h"

namespace rhizome {

// Every way that a descriptor gives to change what others see of such memory, or its size. Returns those that worked.
inline std::vector<std::string> ways_to_change(const Descriptor& given, uint64_t bytes) {
  std::vector<std::string> worked;
  const auto expect_refused = [&worked](bool is_refused, const char* way) {
    if (!is_refused) worked.emplace_back(way);
  };
  const auto try_all = [&](int descriptor) {
    const off_t twice = static_cast<off_t>(2 * bytes);
    const std::byte one{1};
    for (const int protection : {PROT_READ | PROT_WRITE, PROT_WRITE})
      expect_refused(::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0) == MAP_FAILED, "mmap");
    expect_refused(::pwrite(descriptor, &one, 1, 0) < 0, "write");
    expect_refused(::ftruncate(descriptor, 0) != 0, "shrink");
    expect_refused(::ftruncate(descriptor, twice) != 0, "grow");
    expect_refused(::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0, "punch a hole");
    expect_refused(::fallocate(descriptor, FALLOC_FL_ZERO_RANGE, 0, 4096) != 0, "zero");
    expect_refused(::fallocate(descriptor, 0, 0, twice) != 0, "allocate more");
    // It would stop the owner.
    expect_refused(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE) != 0, "seal");
  };
  try_all(given.number());
  const std::string path = "/proc/self/fd/" + std::to_string(given.number());
  const Descriptor again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again.is_open()) try_all(again.number());
  expect_refused(!Descriptor(::open(path.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC)).is_open(), "open and truncate");
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, given.number(), 0);
  expect_refused(mapped != MAP_FAILED, "not even readable");
  if (mapped == MAP_FAILED) return worked;
  expect_refused(::mprotect(mapped, bytes, PROT_READ | PROT_WRITE) != 0, "mprotect");
  expect_refused(::madvise(mapped, bytes, MADV_REMOVE) != 0, "remove");
  static_cast<void>(::madvise(mapped, bytes, MADV_DONTNEED));
  ::munmap(mapped, bytes);
  // A copy of its own may be written, and is nobody else's.
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, given.number(), 0);
  if (copy == MAP_FAILED) return worked;
  static_cast<std::byte*>(copy)[0] ^= std::byte{0xff};
  ::munmap(copy, bytes);
  return worked;
}

}  // namespace rhizome
