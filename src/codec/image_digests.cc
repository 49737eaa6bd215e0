#include "codec/image_digests.h"

#include <algorithm>

#include "codec/image.h"
#include "contract/check.h"

namespace rhizome {
namespace {

// Fewer are faster one by one: lanes that are left over cost as much as the others.
constexpr size_t kLanesLeast = 10;

void digest_together(std::span<const std::span<const std::byte>> images, std::span<Digest> out) {
  DigestInput inputs[kDigestLanes];
  for (size_t lane = 0; lane < kDigestLanes; ++lane) {
    const std::byte* const image = images[std::min(lane, images.size() - 1)].data();
    inputs[lane] = {image, image + kImageHeaderBytes};
  }
  Digest digests[kDigestLanes];
  digest_lanes(inputs, kImageHeaderCoveredBytes, images.front().size() - kImageHeaderBytes, digests);
  std::copy_n(digests, images.size(), out.begin());
}

}  // namespace

void image_digests(std::span<const std::span<const std::byte>> images, std::span<Digest> out) {
  RHIZOME_CHECK(images.size() == out.size());
  const bool can = can_digest_lanes();
  for (size_t at = 0; at < images.size();) {
    size_t count = 1;
    while (at + count < images.size() && count < kDigestLanes && images[at + count].size() == images[at].size())
      ++count;
    RHIZOME_CHECK(images[at].size() >= kImageHeaderBytes);
    if (can && count >= kLanesLeast) {
      digest_together(images.subspan(at, count), out.subspan(at, count));
    } else {
      for (size_t i = at; i < at + count; ++i)
        out[i] = image_digest(images[i]);
    }
    at += count;
  }
}

bool can_digest_lanes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

}  // namespace rhizome
