#include "block/sha256.h"

// OpenSSL's EVP interface would bring its provider machinery along (4 MiB of code, a configuration
// file that is read, exit handlers) into every program that this is loaded into. The functions for
// the one digest that we use are plain code; OpenSSL 3 only advises against them.
#include <new>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "contract/check.h"

namespace rhizome {
namespace {

static_assert(sizeof(Digest) == SHA256_DIGEST_LENGTH);

SHA256_CTX* context_in(std::array<std::byte, 112>& memory) {
  return reinterpret_cast<SHA256_CTX*>(memory.data());
}

}  // namespace

Sha256::Sha256() {
  static_assert(sizeof(SHA256_CTX) == sizeof(context_) && alignof(SHA256_CTX) <= 8);
  ::SHA256_Init(::new (context_.data()) SHA256_CTX);
}

void Sha256::update(std::span<const std::byte> bytes) {
  ::SHA256_Update(context_in(context_), bytes.data(), bytes.size());
}

Digest Sha256::finish() {
  Digest digest;
  const int done = ::SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), context_in(context_));
  RHIZOME_CHECK(done == 1);
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string hex(const Digest& digest, size_t bytes_count) {
  RHIZOME_CHECK(bytes_count <= digest.size());
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes_count);
  for (size_t i = 0; i < bytes_count; ++i) {
    const unsigned value = std::to_integer<unsigned>(digest[i]);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

}  // namespace rhizome
