#include "index/kernels.h"

#include <array>
#include <cstring>

#include "contract/check.h"
#include "index/aes.h"
#include "index/kernel_variants.h"
#include "machine/random.h"

namespace rhizome {
namespace {

using Secret = std::array<std::byte, FingerprintKey::kSecretBytes>;

}  // namespace

FingerprintKey FingerprintKey::random() {
  Secret secret;
  fill_random(secret);
  return from_secret(secret);
}

FingerprintKey FingerprintKey::from_seed(uint64_t seed) {
  Secret secret;
  static_assert(secret.size() % sizeof seed == 0);
  for (size_t at = 0; at < secret.size(); at += sizeof seed) {
    // SplitMix64 (Steele, Lea, Flood 2014).
    uint64_t word = seed += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    word ^= word >> 31;
    std::memcpy(secret.data() + at, &word, sizeof word);
  }
  return from_secret(secret);
}

FingerprintKey FingerprintKey::from_secret(std::span<const std::byte, kSecretBytes> secret) {
  FingerprintKey key;
  const std::byte* at = secret.data();
  std::memcpy(key.masks, at, sizeof key.masks);
  at += sizeof key.masks;
  std::memcpy(key.lane_keys, at, sizeof key.lane_keys);
  at += sizeof key.lane_keys;
  AesState last;
  static_assert(sizeof key.masks + sizeof key.lane_keys + sizeof last == kSecretBytes);
  std::memcpy(&last, at, sizeof last);
  const AesSchedule schedule = aes_expand(last);
  static_assert(sizeof schedule == sizeof key.last_keys);
  std::memcpy(key.last_keys, &schedule, sizeof schedule);
  return key;
}

std::vector<Kernels> kernels_for(uint32_t block_tokens) {
  RHIZOME_CHECK(block_tokens > 0 && block_tokens <= kKernelBlockTokensMax);
  std::vector<Kernels> found = {{"portable", block_tokens, kPortableKernels}};
#if defined(__x86_64__)
  const auto add = [&](const char* name, const KernelFunctions* functions) {
    if (functions != nullptr) found.push_back({name, block_tokens, *functions});
  };
  // Those of AVX ask the operating system too: it must save the wider registers.
  const bool avx2 = __builtin_cpu_supports("avx2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  const bool vaes = __builtin_cpu_supports("vaes");
  if (avx2 && __builtin_cpu_supports("aes")) add("aesni", aesni_kernels(block_tokens));
  if (avx2 && vaes) add("vaes256", vaes256_kernels(block_tokens));
  if (avx512 && vaes) add("vaes512", vaes512_kernels(block_tokens));
#endif
  return found;
}

Kernels fastest_kernels(uint32_t block_tokens) {
  return kernels_for(block_tokens).back();
}

}  // namespace rhizome
