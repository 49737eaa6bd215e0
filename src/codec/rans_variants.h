// The decoder of rans.h compiled for one instruction set each; see plane_variants.h.
#pragma once

#include "codec/rans.h"

namespace rhizome {

bool rans_decode_scalar(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols);

#if defined(__x86_64__)
// Only for processors that have the instructions. What is near the end of the stream it leaves to the other one.
bool rans_decode_avx2(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols);
bool rans_decode_avx512(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols);
#endif

}  // namespace rhizome
