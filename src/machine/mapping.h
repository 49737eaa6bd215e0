// Mapping: memory from the kernel, given back on destruction.
//
// Thread-safety: a Mapping belongs to one thread at a time; its bytes are shared as memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "contract/result.h"

namespace rhizome {

class Mapping {
 public:
  // With kPrefault the pages are there when the call returns (the memory is spent at once);
  // otherwise they come, zeroed, with the first touch.
  enum class Pages : uint8_t { kOnTouch, kPrefault };

  // Private, zeroed memory of this process. kInvalidArgument for zero bytes; kResourceExhausted.
  static Result<Mapping> anonymous(uint64_t bytes, Pages pages = Pages::kOnTouch);

  // Creates the file (mode 0600, zeroed, its space allocated) and maps it shared. kAlreadyExists.
  static Result<Mapping> create_file(const std::string& path, uint64_t bytes, Pages pages = Pages::kOnTouch);

  // Maps all of an existing file, shared and writable. kPermissionDenied when it belongs to another
  // user; kFailedPrecondition for a symbolic link, an empty file or what is no regular file.
  static Result<Mapping> attach_file(const std::string& path);

  Mapping() = default;
  ~Mapping() { reset(); }
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  // Empty for a mapping that was moved from.
  std::span<std::byte> bytes() const { return bytes_; }

  // Gives the whole pages inside the range back to the kernel; in anonymous memory they read as
  // zero afterwards. The range must lie inside the mapping.
  void discard(uint64_t offset, uint64_t length) const;

  // Asks the kernel for pages of 2 MiB where it has some; it may refuse without harm.
  void prefer_huge_pages() const;

  void reset();

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace rhizome
