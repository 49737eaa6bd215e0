// The keyspace: everything but the tokens that KV depends on. Two keyspaces never share a block.
//
// Canonical encoding (version 1, little endian): the bytes "RZKS", u32 version, then one frame a
// field in ascending order of tag: u16 tag, u32 length, that many bytes. A tag occurs at most once.
// Because every field carries its tag and its length, no two different sets of fields encode alike.
// Equality is equality of the encodings; the digest (SHA-256 of the encoding) only names it.
//
// Thread-safety: a sealed Keyspace is immutable; a builder belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block/sha256.h"
#include "contract/result.h"

namespace rhizome {

// The values are part of the format: never reuse or renumber one.
enum class KeyspaceTag : uint16_t {
  kEngine = 1,          // engine family and KV format revision, for example "llama.cpp/seq-3"
  kWeights = 2,         // digest over the contents of all weight files
  kOverrides = 3,       // model metadata overridden at load time, and load options that change the graph
  kLayout = 4,          // Layout::encoding(): layers, widths, element types, row order, block size
  kMemoryClass = 5,     // dense, sliding window with its width, ...
  kRope = 6,            // rope scaling type, base, scale, yarn settings, long-or-short factor choice
  kRotation = 7,        // whether K and V are rotated before quantisation
  kAttention = 8,       // causal flag, attention type
  kAdapters = 9,        // ordered (content digest, scale) of the adapters in force
  kControlVector = 10,  // digest of the control vector and its layer range
  kTenant = 11,         // tenant name
  kSalt = 12,           // the request's own salt
  kEpoch = 13,          // weight epoch
  kMedia = 14,          // digest of media inputs
  kNumerics = 15,       // with --exact: what the last bits depend on
};

std::string_view keyspace_tag_name(KeyspaceTag tag);

class Keyspace {
 public:
  // The canonical encoding.
  std::span<const std::byte> encoding() const { return encoding_; }
  const Digest& digest() const { return digest_; }
  // The value of a field; empty where it was not set.
  std::span<const std::byte> field(KeyspaceTag tag) const;

  friend bool operator==(const Keyspace& a, const Keyspace& b) { return a.encoding_ == b.encoding_; }

  // Strict: kInvalidArgument unless the bytes are exactly what a builder would have made.
  static Result<Keyspace> decode(std::span<const std::byte> encoding);

  // The first tag whose value differs, in ascending order; false when the keyspaces are equal.
  static bool first_difference(const Keyspace& a, const Keyspace& b, KeyspaceTag& tag);

 private:
  friend class KeyspaceBuilder;
  explicit Keyspace(std::vector<std::byte> encoding);

  std::vector<std::byte> encoding_;
  Digest digest_{};
};

class KeyspaceBuilder {
 public:
  // Setting a tag twice replaces the value.
  KeyspaceBuilder& set(KeyspaceTag tag, std::span<const std::byte> bytes);
  KeyspaceBuilder& set(KeyspaceTag tag, std::string_view text);
  KeyspaceBuilder& set(KeyspaceTag tag, const Digest& digest);

  // kFailedPrecondition when kEngine, kWeights, kLayout, kMemoryClass, kRope or kAttention was never
  // set, or set to no bytes: an incomplete identity is not cacheable, it is never a keyspace with
  // fewer fields. kInvalidArgument when a value is longer than 1 MiB.
  Result<Keyspace> seal() const;

 private:
  struct Field {
    KeyspaceTag tag;
    std::vector<std::byte> bytes;
  };
  std::vector<Field> fields_;  // ascending by tag
};

}  // namespace rhizome
