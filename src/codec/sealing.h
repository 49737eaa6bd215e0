// Images for stores that are not trusted: the payload encrypted with AES-256-GCM, identity and all, and the header
// vouched for. Whoever can write there can still hand out an old image, or none, but no other than was made.
//
// A sealed payload is u32 key id, a nonce of 12 random bytes, the tag of 16 bytes, and the payload, encrypted; the
// first 52 bytes of the header are authenticated with it. Random nonces bound what one key may seal: rotate before 2^32
// images.
//
// Thread-safety: pure functions over the caller's memory.
#pragma once

#include <cstddef>
#include <span>

#include "codec/image.h"
#include "codec/seal_keys.h"
#include "codec/workspace.h"
#include "contract/result.h"

namespace rhizome {

// Seals the image of `image_bytes` at the head of `buffer`, which has kSealBytes more; returns its new size. The image
// was made without a digest.
size_t seal_image(const SealKeys& keys, std::span<std::byte> buffer, size_t image_bytes);

// As check_image(), for a request that takes sealed images only (kCheckMissing for others): kSealKey, kSeal, and then
// the identity. What comes back points into the workspace and is good until it opens another.
Result<CheckedImage> open_image(std::span<const std::byte> received, const ImageRequest& request, const SealKeys& keys,
                                CodecWorkspace& workspace);

}  // namespace rhizome
