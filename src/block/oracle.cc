#include "block/oracle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "block/little_endian.h"

namespace rhizome {
namespace {

// xoshiro256++ (Blackman and Vigna, public domain), seeded with all 256 bits of the digest: a
// payload of many blocks is checked in the time of reading it.
class Stream {
 public:
  Stream(const Digest& keyspace, std::span<const Token> prefix) {
    std::array<std::byte, sizeof(uint64_t)> count;
    store_little(count.data(), static_cast<uint64_t>(prefix.size()));
    Sha256 hash;
    hash.update(keyspace);
    hash.update(count);
    hash.update(std::as_bytes(prefix));
    const Digest seed = hash.finish();
    std::memcpy(state_.data(), seed.data(), seed.size());
  }

  std::array<std::byte, 8> next() {
    const uint64_t value = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    std::array<std::byte, 8> bytes;
    store_little(bytes.data(), value);
    return bytes;
  }

 private:
  std::array<uint64_t, 4> state_{};
};

}  // namespace

void fill_oracle(std::span<std::byte> out, const Digest& keyspace, std::span<const Token> prefix) {
  Stream stream(keyspace, prefix);
  while (!out.empty()) {
    const std::array<std::byte, 8> bytes = stream.next();
    const size_t step = std::min(bytes.size(), out.size());
    std::memcpy(out.data(), bytes.data(), step);
    out = out.subspan(step);
  }
}

bool oracle_matches(std::span<const std::byte> bytes, const Digest& keyspace, std::span<const Token> prefix) {
  Stream stream(keyspace, prefix);
  while (!bytes.empty()) {
    const std::array<std::byte, 8> expected = stream.next();
    const size_t step = std::min(expected.size(), bytes.size());
    if (std::memcmp(bytes.data(), expected.data(), step) != 0) return false;
    bytes = bytes.subspan(step);
  }
  return true;
}

}  // namespace rhizome
