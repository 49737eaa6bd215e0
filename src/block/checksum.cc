#include "block/checksum.h"

#include <array>

#include "block/checksum_variants.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "block/checksum_parts.h"

namespace rhizome {
namespace {

uint64_t checksum_anywhere(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

struct Runnable {
  std::array<ChecksumVariant, 3> variants;
  size_t count = 0;

  Runnable() {
    add({"baseline", checksum_anywhere, kParts});
#if defined(__x86_64__)
    // These ask the operating system too: it must save the wider registers.
    if (__builtin_cpu_supports("avx2")) add({"avx2", checksum_avx2, checksum_parts_avx2()});
    if (__builtin_cpu_supports("avx512f")) add({"avx512", checksum_avx512, checksum_parts_avx512()});
#endif
  }

  void add(ChecksumVariant variant) { variants[count++] = variant; }
};

const Runnable& runnable() {
  static const Runnable kFound;
  return kFound;
}

}  // namespace

std::span<const ChecksumVariant> checksum_variants() {
  return std::span(runnable().variants).first(runnable().count);
}

uint64_t checksum(std::span<const std::byte> bytes) {
  return checksum_variants().back().of(bytes.data(), bytes.size());
}

ChecksumStream::ChecksumStream() : parts_(checksum_variants().back().parts) {
  parts_.begin(state_.data());
}

void ChecksumStream::add(std::span<const std::byte> bytes) {
  parts_.add(state_.data(), bytes.data(), bytes.size());
}

uint64_t ChecksumStream::sum() const {
  return parts_.sum(state_.data());
}

}  // namespace rhizome
