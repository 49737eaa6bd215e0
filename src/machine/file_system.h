// What a store on disk does with files, as an interface, so that a simulated twin (machine/simulated_files.h) can stand
// in its place.
//
// Thread-safety: any thread. What the kernel refuses comes back as error_from_errno() gives it; nothing here throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/result.h"

namespace rhizome {

// An open file; destruction closes it.
class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // How many bytes were read: fewer than asked for where the file ends.
  virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> into) = 0;
  // How many bytes were written: fewer than given where the device is full.
  virtual Result<size_t> write_at(uint64_t offset, std::span<const std::byte> from) = 0;
  // What was written survives a loss of power from here on.
  virtual Status sync_data() = 0;
  virtual Status truncate(uint64_t bytes) = 0;
  // The file is at least so long, and no write below that can fail for want of room. kResourceExhausted.
  virtual Status allocate(uint64_t bytes) = 0;
  virtual Result<uint64_t> size() = 0;
  // Past the kernel's cache (O_DIRECT): then offsets, lengths and memory are multiples of kDirectAlignment.
  virtual bool is_direct() const = 0;
  // -1 where there is none: a simulated file.
  virtual int descriptor() const = 0;

 protected:
  File() = default;
};

inline constexpr size_t kDirectAlignment = 4096;

// Held until destroyed. The kernel takes it back when its owner dies, however he dies.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 protected:
  DirectoryLock() = default;
};

enum class OpenMode : uint8_t {
  kRead,
  kReadWrite,        // kNotFound when it is not there
  kCreate,           // read and write, mode 0600; kAlreadyExists when it is there
  kReadDirect,       // these three: past the kernel's cache, where the file system can
  kReadWriteDirect,  //
  kCreateDirect,     //
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // As make_private_directory().
  virtual Status make_directory(const std::string& path) = 0;
  // kFailedPrecondition for what is there and is no regular file: a directory, a link, a pipe. Waits for nobody.
  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  // Names, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // Names that were made or removed survive a loss of power from here on.
  virtual Status sync_directory(const std::string& path) = 0;
  // What files in that directory could still take, of those that this process may use.
  virtual Result<uint64_t> room_bytes(const std::string& directory) = 0;
  // By a file "lock" in it. kAlreadyExists: a living process (or this one) holds it.
  virtual Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) = 0;
  // Whether somebody holds the lock; takes nothing. False where there is no lock.
  virtual bool is_locked(const std::string& path) = 0;
};

// The machine's own; lives as long as the process.
FileSystem& real_file_system();

}  // namespace rhizome
