#include "slab/block_copy.h"

#include <array>
#include <atomic>
#include <cstring>
#include <functional>

#include "contract/check.h"
#include "slab/copy_variants.h"

namespace rhizome {
namespace {

constexpr size_t kCachedBytesMax = 256 << 10;

std::atomic<uint64_t> copied_bytes{0};
thread_local uint64_t copied_here = 0;

void copy_anywhere(std::byte* to, const std::byte* from, size_t size) {
  std::memcpy(to, from, size);
}

struct Runnable {
  std::array<CopyVariant, 3> variants;
  size_t count = 0;

  Runnable() {
    add({"baseline", copy_anywhere});
#if defined(__x86_64__)
    // These ask the operating system too: it must save the wider registers.
    if (__builtin_cpu_supports("avx2")) add({"avx2", copy_avx2});
    if (__builtin_cpu_supports("avx512f")) add({"avx512", copy_avx512});
#endif
  }

  void add(CopyVariant variant) { variants[count++] = variant; }
};

const Runnable& runnable() {
  static const Runnable kFound;
  return kFound;
}

bool apart(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less_equal<> before;
  return before(a.data() + a.size(), b.data()) || before(b.data() + b.size(), a.data());
}

}  // namespace

std::span<const CopyVariant> copy_variants() {
  return std::span(runnable().variants).first(runnable().count);
}

void copy_block_bytes(std::span<std::byte> to, std::span<const std::byte> from) {
  RHIZOME_CHECK(to.size() == from.size() && apart(to, from));
  if (from.empty()) return;
  copied_bytes.fetch_add(from.size(), std::memory_order_relaxed);
  copied_here += from.size();
  if (from.size() <= kCachedBytesMax) {
    copy_anywhere(to.data(), from.data(), from.size());
  } else {
    copy_variants().back().copy(to.data(), from.data(), from.size());
  }
}

uint64_t block_bytes_copied_here() {
  return copied_here;
}

uint64_t copied_block_bytes() {
  return copied_bytes.load(std::memory_order_relaxed);
}

}  // namespace rhizome
