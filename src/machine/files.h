// Files and directories by name.
//
// Thread-safety: may be called from any thread. What the kernel refuses comes back as
// error_from_errno() gives it; nothing here throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "contract/result.h"

namespace rhizome {

// The canonical code for an errno value.
Error error_from_errno(int error_number, const char* reason);

// What tells one state of a file's contents from another without reading it.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Follows symbolic links. kNotFound; kInvalidArgument for what is no regular file.
Result<FileStamp> stamp_file(const std::string& path);

// The whole file. kResourceExhausted when it is longer than `limit_bytes`.
Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t limit_bytes);
Result<std::string> read_text_file(const std::string& path, uint64_t limit_bytes);

// As read_text_file(), of a secret: kPermissionDenied when it belongs to somebody else, or others may read or write it.
Result<std::string> read_secret_file(const std::string& path, uint64_t limit_bytes);

// `length` bytes from `offset` on; fewer where the file ends before. What has no length, a pipe or a device, has none.
Result<std::vector<std::byte>> read_file_range(const std::string& path, uint64_t offset, uint64_t length);

// Readers see the old contents or the new, also after a crash. A file left by a killed writer is
// named like `path` with a suffix and is never read.
Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes, mode_t mode = 0600);
Status write_file_atomically(const std::string& path, std::string_view text, mode_t mode = 0600);

// Hands the file over in order, in chunks of `chunk_bytes` (the last may be shorter), until `take`
// returns false. Only one chunk is in memory at a time.
Status for_each_chunk(const std::string& path, size_t chunk_bytes,
                      const std::function<bool(std::span<const std::byte>)>& take);

// Makes the directory and its parents (mode 0700). kPermissionDenied when it exists and does not
// belong to the caller, or others may write to it.
Status make_private_directory(const std::string& path);

// kNotFound when there is none.
Status remove_file(const std::string& path);

// The names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_directory(const std::string& path);

}  // namespace rhizome
