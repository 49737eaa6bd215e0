// Digests of many images at once: sixteen of one length together, each in a lane of a vector.
//
// Thread-safety: pure functions over the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "block/sha256.h"

namespace rhizome {

// image_digest() of each. As many together as stand beside each other and have one length.
void image_digests(std::span<const std::span<const std::byte>> images, std::span<Digest> out);

// What an image's digest is over, in two pieces.
struct DigestInput {
  const std::byte* head = nullptr;
  const std::byte* body = nullptr;
};
inline constexpr size_t kDigestLanes = 16;

// Whether this processor has the instructions.
bool can_digest_lanes();
// SHA-256 over head and body of sixteen inputs. Only where it can.
void digest_lanes(const DigestInput (&inputs)[kDigestLanes], size_t head_bytes, size_t body_bytes,
                  Digest (&out)[kDigestLanes]);

}  // namespace rhizome
