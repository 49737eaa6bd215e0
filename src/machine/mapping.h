// Mapping: memory from the kernel, given back on destruction.
//
// Thread-safety: a Mapping belongs to one thread at a time; its bytes are shared as memory is.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "contract/result.h"
#include "machine/descriptor.h"

namespace rhizome {

class Mapping {
 public:
  // With kPrefault the pages are there when the call returns (the memory is spent at once);
  // otherwise they come, zeroed, with the first touch.
  enum class Pages : uint8_t { kOnTouch, kPrefault };

  // Private, zeroed memory of this process. kInvalidArgument for zero bytes; kResourceExhausted.
  static Result<Mapping> anonymous(uint64_t bytes, Pages pages = Pages::kOnTouch);

  // As anonymous(), but all of it is there when the call returns, or the call fails; from kHugePageBytes on it begins
  // at a multiple of them and lies in huge pages where the kernel has some. kInvalidArgument for zero bytes;
  // kResourceExhausted.
  static Result<Mapping> resident(uint64_t bytes);

  // Who may write to shareable memory. kReadOnly: the mapping that made it, and nobody else ever, not even this process
  // through another mapping. kWritable: whoever is given the descriptor.
  enum class Sharing : uint8_t { kReadOnly, kWritable };

  // As resident(), but in a file without a name (memfd), mapped shared: whoever is given descriptor() can map the same
  // bytes. Its size and its seals are sealed, kReadOnly memory against writers and holes as well; a holder of kWritable
  // memory can still punch holes into it, which read as zeros. Absent in a forked child, where kReadOnly memory would
  // have a second writer. Huge pages come from the kernel's pool when it has enough, else wherever it can collapse
  // some.
  static Result<Mapping> shareable(uint64_t bytes, Sharing sharing = Sharing::kReadOnly);

  // What this process does with memory that another one made.
  enum class Access : uint8_t {
    kRead,          // it reads kReadOnly memory
    kReadWritable,  // it reads kWritable memory: the bytes may change, or become zeros, at any time
    kWrite,         // it writes kWritable memory
  };

  // Maps what another process handed over, after a check that nothing it does can make a touch fatal: the mapping is
  // aligned as resident() memory, absent in a forked child, and writing to it is fatal unless `access` is kWrite. The
  // descriptor stays the caller's; the mapping lives without it and has none of its own.
  // kInvalidArgument: no memory file; another size than `bytes`. kFailedPrecondition, with a reason each: it can
  // shrink; it can grow; for kRead, it can still be written to; otherwise, pages of the kernel's huge page pool, which
  // holes would make fatal; its pages are not all allocated (touches would spend memory). kPermissionDenied: the
  // descriptor or a seal does not allow writing. kResourceExhausted.
  static Result<Mapping> attach_shared(const Descriptor& descriptor, uint64_t bytes, Access access);

  // As attach_shared() for kRead, but the mapping keeps the descriptor, and can be handed on as shareable memory can.
  static Result<Mapping> adopt_shared(Descriptor descriptor, uint64_t bytes);

  static constexpr uint64_t kHugePageBytes = 2 << 20;

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

  // Of a shareable or adopted mapping: valid as long as the mapping is. -1 for all others.
  int descriptor() const { return descriptor_; }

  // Which memory file descriptor() is: the same one has the same numbers, whoever opened it. Zeros without one.
  struct FileNumber {
    uint64_t device = 0;
    uint64_t inode = 0;
    friend auto operator<=>(const FileNumber&, const FileNumber&) = default;
  };
  FileNumber file_number() const;

  // Gives the whole pages inside the range back to the kernel; in anonymous memory they read as
  // zero afterwards. The range must lie inside the mapping.
  void discard(uint64_t offset, uint64_t length) const;

  // Asks the kernel for pages of 2 MiB where it has some; it may refuse without harm.
  void prefer_huge_pages() const;
  // Asks for none, where a touch is to spend one small page and no more.
  void prefer_small_pages() const;

  void reset();

 private:
  explicit Mapping(std::span<std::byte> bytes, int descriptor = -1) : bytes_(bytes), descriptor_(descriptor) {}
  static Result<Mapping> memory_file(uint64_t bytes, Sharing sharing, unsigned int flags);

  std::span<std::byte> bytes_;
  int descriptor_ = -1;
};

}  // namespace rhizome
