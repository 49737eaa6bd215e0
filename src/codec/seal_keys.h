// The keys with which a tenant's images are sealed, from a file that only its owner can read.
//
// One key a line: its id (a number, 1 or more) and 64 hexadecimal digits; a line may be empty or begin with '#'. The
// last key seals, all of them open: to rotate, append a new key, and take an old one out when what it sealed may be
// forgotten.
//
// Thread-safety: does not change once made. Keys are wiped when the object goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "contract/result.h"

namespace rhizome {

using SealKey = std::array<std::byte, 32>;

class SealKeys {
 public:
  // kInvalidArgument when a line is none, an id occurs twice or there is no key; what read_secret_file() says.
  static Result<SealKeys> read(const std::string& path);
  static Result<SealKeys> parse(std::string_view text);

  SealKeys(SealKeys&&) = default;
  SealKeys& operator=(SealKeys&&) = delete;
  ~SealKeys();

  uint32_t sealing_id() const { return keys_.back().id; }
  // Null when there is none.
  const SealKey* find(uint32_t id) const;

 private:
  struct Entry {
    uint32_t id = 0;
    SealKey key{};
  };
  SealKeys() = default;

  std::vector<Entry> keys_;
};

}  // namespace rhizome
