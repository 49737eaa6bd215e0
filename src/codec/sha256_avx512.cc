#include "codec/image_digests.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace rhizome {
namespace {

constexpr size_t kBlockBytes = 64;

// FIPS 180-4, 4.2.2 and 5.3.3.
constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr uint32_t kFirstState[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

inline __m512i add(__m512i a, __m512i b) {
  return _mm512_add_epi32(a, b);
}
inline __m512i exclusive_or(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

// Row i of 16 words becomes column i.
inline void transpose(__m512i (&rows)[16]) {
  __m512i pairs[16];
  for (int i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  __m512i fours[16];
  for (int i = 0; i < 4; ++i) {
    fours[4 * i] = _mm512_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 1] = _mm512_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[4 * i + 2] = _mm512_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    fours[4 * i + 3] = _mm512_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even_low = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0x88);
    const __m512i even_high = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0xdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0xdd);
    rows[i] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    rows[8 + i] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    rows[4 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    rows[12 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

inline void extend(__m512i (&words)[16], int round) {
  const __m512i second = words[(round + 1) & 15];
  const __m512i last = words[(round + 14) & 15];
  const __m512i small_0 =
      exclusive_or(_mm512_ror_epi32(second, 7), _mm512_ror_epi32(second, 18), _mm512_srli_epi32(second, 3));
  const __m512i small_1 =
      exclusive_or(_mm512_ror_epi32(last, 17), _mm512_ror_epi32(last, 19), _mm512_srli_epi32(last, 10));
  words[round & 15] = add(add(words[round & 15], words[(round + 9) & 15]), add(small_0, small_1));
}

// One block of each lane.
void compress(__m512i (&state)[8], const std::byte* const (&blocks)[kDigestLanes]) {
  const __m512i swapped = _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  __m512i words[16];
  for (size_t lane = 0; lane < kDigestLanes; ++lane)
    words[lane] = _mm512_shuffle_epi8(_mm512_loadu_si512(blocks[lane]), swapped);
  transpose(words);
  __m512i a = state[0], b = state[1], c = state[2], d = state[3];
  __m512i e = state[4], f = state[5], g = state[6], h = state[7];
#pragma GCC unroll 64
  for (int round = 0; round < 64; ++round) {
    if (round >= 16) extend(words, round);
    const __m512i big_1 = exclusive_or(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
    const __m512i choice = _mm512_ternarylogic_epi32(e, f, g, 0xca);
    const __m512i constant = _mm512_set1_epi32(static_cast<int>(kRoundConstants[round]));
    const __m512i first = add(add(h, add(words[round & 15], constant)), add(big_1, choice));
    const __m512i big_0 = exclusive_or(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
    const __m512i second = add(big_0, _mm512_ternarylogic_epi32(a, b, c, 0xe8));
    h = g;
    g = f;
    f = e;
    e = add(d, first);
    d = c;
    c = b;
    b = a;
    a = add(first, second);
  }
  const __m512i ends[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i)
    state[i] = add(state[i], ends[i]);
}

// Bytes [at, at + 64) of what is hashed: head, body, a one bit, zeros and, in the last block, the length in bits.
void fill_block(const DigestInput& input, size_t head_bytes, size_t body_bytes, size_t at, bool is_last,
                std::byte (&block)[kBlockBytes]) {
  std::memset(block, 0, kBlockBytes);
  const size_t total = head_bytes + body_bytes;
  for (size_t i = 0; i < kBlockBytes && at + i <= total; ++i) {
    const size_t from = at + i;
    block[i] = from < head_bytes ? input.head[from] : from < total ? input.body[from - head_bytes] : std::byte{0x80};
  }
  if (!is_last) return;
  for (int i = 0; i < 8; ++i)
    block[56 + i] = static_cast<std::byte>(static_cast<uint64_t>(total) * 8 >> (56 - 8 * i));
}

}  // namespace

void digest_lanes(const DigestInput (&inputs)[kDigestLanes], size_t head_bytes, size_t body_bytes,
                  Digest (&out)[kDigestLanes]) {
  const size_t total = head_bytes + body_bytes;
  const size_t blocks_count = (total + 1 + 8 + kBlockBytes - 1) / kBlockBytes;
  __m512i state[8];
  for (int i = 0; i < 8; ++i)
    state[i] = _mm512_set1_epi32(static_cast<int>(kFirstState[i]));
  std::byte filled[kDigestLanes][kBlockBytes];
  const std::byte* blocks[kDigestLanes];
  for (size_t block = 0; block < blocks_count; ++block) {
    const size_t at = block * kBlockBytes;
    const bool is_inside = at >= head_bytes && at + kBlockBytes <= total;
    for (size_t lane = 0; lane < kDigestLanes; ++lane) {
      blocks[lane] = filled[lane];
      if (is_inside)
        blocks[lane] = inputs[lane].body + (at - head_bytes);
      else
        fill_block(inputs[lane], head_bytes, body_bytes, at, block + 1 == blocks_count, filled[lane]);
    }
    compress(state, blocks);
  }
  alignas(64) uint32_t words[8][kDigestLanes];
  for (int i = 0; i < 8; ++i)
    _mm512_store_si512(words[i], state[i]);
  for (size_t lane = 0; lane < kDigestLanes; ++lane) {
    for (size_t i = 0; i < 8; ++i) {
      const uint32_t word = __builtin_bswap32(words[i][lane]);
      std::memcpy(&out[lane][4 * i], &word, sizeof word);
    }
  }
}

}  // namespace rhizome
#else

#include "contract/check.h"

namespace rhizome {

void digest_lanes(const DigestInput (&)[kDigestLanes], size_t, size_t, Digest (&)[kDigestLanes]) {
  RHIZOME_CHECK(can_digest_lanes());
}

}  // namespace rhizome
#endif
