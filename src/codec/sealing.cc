#include "codec/sealing.h"

#include <cstring>
#include <limits>
#include <memory>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "block/little_endian.h"
#include "codec/image_rule.h"
#include "contract/check.h"
#include "machine/random.h"

namespace rhizome {
namespace {

constexpr size_t kNonceAt = 4;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagAt = kNonceAt + kNonceBytes;
constexpr size_t kTagBytes = 16;
static_assert(kTagAt + kTagBytes == kSealBytes);

// The library's machinery may be in somebody else's process: no file of settings is read, nothing runs at exit.
void prepare_library() {
  static const int kDone = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  RHIZOME_CHECK(kDone == 1);
}

const unsigned char* bytes_of(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);
}

unsigned char* bytes_of(std::byte* at) {
  return reinterpret_cast<unsigned char*>(at);
}

enum class Direction { kOpen = 0, kSeal = 1 };

// One pass of AES-256-GCM. The tag is written when sealing; opening is true only when it is right.
bool run_cipher(Direction direction, const SealKey& key, std::span<const std::byte> header, std::byte* seal,
                std::span<const std::byte> from, std::byte* to) {
  prepare_library();
  RHIZOME_CHECK(from.size() <= static_cast<size_t>(std::numeric_limits<int>::max()));
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&::EVP_CIPHER_CTX_free)> context(::EVP_CIPHER_CTX_new(),
                                                                                  &::EVP_CIPHER_CTX_free);
  RHIZOME_CHECK(context != nullptr);
  EVP_CIPHER_CTX* const cipher = context.get();
  int written = 0;
  bool ok = ::EVP_CipherInit_ex(cipher, ::EVP_aes_256_gcm(), nullptr, bytes_of(key.data()), bytes_of(seal + kNonceAt),
                                static_cast<int>(direction)) == 1;
  ok = ok &&
       ::EVP_CipherUpdate(cipher, nullptr, &written, bytes_of(header.data()), static_cast<int>(header.size())) == 1;
  ok = ok &&
       ::EVP_CipherUpdate(cipher, bytes_of(to), &written, bytes_of(from.data()), static_cast<int>(from.size())) == 1;
  if (direction == Direction::kOpen)
    ok = ok && ::EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, kTagBytes, seal + kTagAt) == 1;
  unsigned char nothing[16];
  ok = ok && ::EVP_CipherFinal_ex(cipher, nothing, &written) == 1;
  if (direction == Direction::kSeal)
    ok = ok && ::EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, kTagBytes, seal + kTagAt) == 1;
  return ok;
}

}  // namespace

size_t seal_image(const SealKeys& keys, std::span<std::byte> buffer, size_t image_bytes) {
  RHIZOME_CHECK(image_bytes <= buffer.size() && buffer.size() - image_bytes >= kSealBytes);
  Result<ImageHeader> header = parse_image_header(buffer.first(image_bytes));
  RHIZOME_CHECK(header.has_value() && header->has(image_flag::kNoDigest) && !header->is_sealed());
  header->flags = static_cast<uint16_t>(header->flags | image_flag::kSealed);
  header->encoded_bytes += static_cast<uint32_t>(kSealBytes);
  write_image_header(*header, buffer.first<kImageHeaderBytes>());

  std::byte* const seal = buffer.data() + kImageHeaderBytes;
  const size_t payload_bytes = image_bytes - kImageHeaderBytes;
  std::memmove(seal + kSealBytes, seal, payload_bytes);
  store_little(seal, keys.sealing_id());
  fill_random({seal + kNonceAt, kNonceBytes});
  const bool sealed =
      run_cipher(Direction::kSeal, *keys.find(keys.sealing_id()), buffer.first(kImageHeaderCoveredBytes), seal,
                 {seal + kSealBytes, payload_bytes}, seal + kSealBytes);
  RHIZOME_CHECK(sealed);
  return image_bytes + kSealBytes;
}

Result<CheckedImage> open_image(std::span<const std::byte> received, const ImageRequest& request, const SealKeys& keys,
                                CodecWorkspace& workspace) {
  const Result<ImageHeader> header = parse_image_header(received);
  if (!header) return fail(header.error());
  const std::span<const std::byte> payload = received.subspan(kImageHeaderBytes);
  if (const Status matched = match_header(*header, request, payload.size()); !matched) return fail(matched.error());
  if (!header->is_sealed()) return broken(ImageRule::kCheckMissing);
  const SealKey* const key = keys.find(load_little<uint32_t>(payload.data()));
  if (key == nullptr) return broken(ImageRule::kSealKey);
  std::byte seal[kSealBytes];
  std::memcpy(seal, payload.data(), kSealBytes);
  const std::span<const std::byte> sealed = payload.subspan(kSealBytes);
  const std::span<std::byte> opened = workspace.take(CodecWorkspace::Purpose::kOpened, sealed.size());
  if (!run_cipher(Direction::kOpen, *key, received.first(kImageHeaderCoveredBytes), seal, sealed, opened.data()))
    return broken(ImageRule::kSeal);
  const size_t head = identity_bytes(header->geometry.tokens_count);
  if (!identity_matches(opened.first(head), request.content.identity)) return broken(ImageRule::kIdentity);
  if (header->has(image_flag::kLossy) && !request.content.is_lossy) return broken(ImageRule::kLossy);
  return CheckedImage{*header, opened.subspan(head)};
}

}  // namespace rhizome
