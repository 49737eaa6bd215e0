#include "codec/plane_kernels.h"

#include <array>

#include "codec/plane_variants.h"

namespace rhizome {
namespace {

struct Runnable {
  std::array<PlaneKernels, 3> variants;
  size_t count = 0;

  Runnable() {
    add(scalar_plane_kernels());
#if defined(__x86_64__)
    // These ask the operating system too: it must save the wider registers.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) add(avx2_plane_kernels());
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2")) add(avx512_plane_kernels());
#endif
  }

  void add(const PlaneKernels& kernels) { variants[count++] = kernels; }
};

const Runnable& runnable() {
  static const Runnable kFound;
  return kFound;
}

}  // namespace

std::span<const PlaneKernels> plane_kernels() {
  return std::span(runnable().variants).first(runnable().count);
}

const PlaneKernels& fastest_plane_kernels() {
  return plane_kernels().back();
}

}  // namespace rhizome
