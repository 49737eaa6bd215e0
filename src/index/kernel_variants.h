// The kernels compiled for one instruction set each.
//
// Each variant stands in a file of its own, so that nothing else is compiled for a processor that may be absent. Such a
// file keeps to intrinsics and to functions that no other file sees: the linker would keep one copy of a shared inline
// function, perhaps the one with the rare instructions.
#pragma once

#include <cstdint>

#include "index/kernels.h"

namespace rhizome {

// For any size of block.
extern const KernelFunctions kPortableKernels;

#if defined(__x86_64__)
// Null for sizes that they are not compiled for. Only for processors that have the instructions: AVX2 and AES; AVX2 and
// VAES; AVX-512 F and VL, and VAES.
const KernelFunctions* aesni_kernels(uint32_t block_tokens);
const KernelFunctions* vaes256_kernels(uint32_t block_tokens);
const KernelFunctions* vaes512_kernels(uint32_t block_tokens);
#endif

// `Variant<n>` has the functions for blocks of n stripes, as static members.
template <template <uint32_t> class Variant, uint32_t kStripesEach>
constexpr KernelFunctions kFunctionsOf = {Variant<kStripesEach>::fingerprint, Variant<kStripesEach>::match_fingerprints,
                                          Variant<kStripesEach>::match_tokens, Variant<kStripesEach>::match_words};

template <template <uint32_t> class Variant>
const KernelFunctions* functions_for(uint32_t block_tokens) {
  switch (block_tokens) {
    case 16:
      return &kFunctionsOf<Variant, 1>;
    case 32:
      return &kFunctionsOf<Variant, 2>;
    case 64:
      return &kFunctionsOf<Variant, 4>;
    case 128:
      return &kFunctionsOf<Variant, 8>;
    case 256:
      return &kFunctionsOf<Variant, 16>;
    default:
      return nullptr;
  }
}

}  // namespace rhizome
