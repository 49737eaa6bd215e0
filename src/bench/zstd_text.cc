#include "bench/zstd_text.h"

#include <memory>
#include <vector>

#include <zstd.h>

namespace rhizome::bench {
namespace {

struct StreamFree {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

}  // namespace

bool is_zstd(std::span<const std::byte> bytes) {
  constexpr uint32_t kMagic = ZSTD_MAGICNUMBER;  // little-endian
  if (bytes.size() < sizeof(kMagic)) return false;
  for (size_t i = 0; i < sizeof(kMagic); ++i) {
    if (bytes[i] != static_cast<std::byte>(kMagic >> (8 * i))) return false;
  }
  return true;
}

Result<std::string> unpack_zstd(std::span<const std::byte> bytes, uint64_t limit_bytes) {
  const std::unique_ptr<ZSTD_DStream, StreamFree> stream(ZSTD_createDStream());
  if (!stream) return fail(Code::kResourceExhausted, "no memory to decompress");
  std::vector<char> chunk(ZSTD_DStreamOutSize());
  std::string text;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t more = 1;  // 0 at the end of a frame
  while (in.pos < in.size || more != 0) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    const size_t read_before = in.pos;
    more = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(more) != 0) return fail(Code::kDataLoss, "its compressed text is damaged");
    if (more != 0 && out.pos == 0 && in.pos == read_before)
      return fail(Code::kDataLoss, "its compressed text is cut off");
    if (text.size() + out.pos > limit_bytes) return fail(Code::kResourceExhausted, "its text is too long");
    text.append(chunk.data(), out.pos);
  }
  return text;
}

}  // namespace rhizome::bench
