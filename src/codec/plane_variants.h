// The plane kernels compiled for one instruction set each.
//
// Each variant stands in a file of its own, so that nothing else is compiled for a processor that may be absent. Such a
// file keeps to intrinsics and to functions that no other file sees: the linker would keep one copy of a shared inline
// function, perhaps the one with the rare instructions.
#pragma once

#include "codec/plane_kernels.h"

namespace rhizome {

PlaneKernels scalar_plane_kernels();

#if defined(__x86_64__)
// Only for processors that have the instructions.
PlaneKernels avx2_plane_kernels();
PlaneKernels avx512_plane_kernels();
#endif

}  // namespace rhizome
