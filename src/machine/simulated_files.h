// Files in memory that lose, tear and fail on purpose: the twin of real_file_system() for tests. Seeded: the same calls
// give the same faults.
//
// What is written can be read at once. A power cut takes what was not synced: each page of kDirectAlignment bytes is
// left old or new, each for itself, and a name that was made or removed without sync_directory() may be back as it was.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/file_system.h"

namespace rhizome {

enum class FileCall : uint8_t {
  kMakeDirectory,
  kOpen,
  kRename,
  kRemove,
  kList,
  kSyncDirectory,
  kLock,
  kRead,
  kWrite,
  kSyncData,
  kTruncate,
  kAllocate,
  kSize,
  kClose,
};
std::string_view file_call_name(FileCall call);

enum class FileFault : uint8_t {
  kNone,
  kKill,       // this call and all that follow fail; of a write, some pages may be done
  kIoError,    // EIO; of a write, some pages may be done
  kNoSpace,    // ENOSPC, of a call that can need room; EIO of others
  kShort,      // half of a read or write; EIO of others
  kLostWrite,  // the device says that it has written, and has not
};

struct FileCallLog {
  FileCall call = FileCall::kOpen;
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class SimulatedFiles final : public FileSystem {
 public:
  explicit SimulatedFiles(uint64_t seed);
  ~SimulatedFiles() override;

  Status make_directory(const std::string& path) override;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<uint64_t> room_bytes(const std::string& directory) override;  // no call that fails
  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override;
  bool is_locked(const std::string& path) override;

  // The call that is made after `calls` others fails so, once (kKill: and all after it).
  void inject(uint64_t calls, FileFault fault);
  // Each call fails with this chance, once it is set.
  void set_chance(double chance, FileFault fault);
  // Whether the fault of the last inject() has happened.
  bool has_fired() const;
  uint64_t calls_count() const;
  // What was called since the start, or since the last take_log().
  std::vector<FileCallLog> take_log();

  // The machine goes off and on again: open files are gone (their calls fail), locks are free, faults are off.
  void cut_power();
  // The process died and the machine did not: as cut_power(), but nothing is lost.
  void end_process();

  void set_read_only(bool is_read_only);  // every call that changes something is EROFS
  void set_room_bytes(uint64_t bytes);    // of all files together; more is ENOSPC
  // Behind the back of whoever has it open: the name is gone, the open file goes on.
  void unlink(const std::string& path);

  // Contents as they are, for damaging them.
  std::vector<std::byte> contents(const std::string& path) const;
  void set_contents(const std::string& path, std::span<const std::byte> bytes);
  std::vector<std::string> paths() const;

 private:
  friend class SimulatedFile;
  friend class SimulatedLock;
  struct Node;
  class Guard;

  // The fault of this call. Any but kNone and kLostWrite: the call fails with error_of().
  FileFault begin(FileCall call, const std::string& path, uint64_t offset, uint64_t bytes);
  static Error error_of(FileFault fault, FileCall call);
  uint64_t allocated_bytes() const;
  void restart();

  mutable std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mt19937_64 random_;
  std::map<std::string, Node*> names_;
  std::map<std::string, Node*> synced_names_;  // what the device has
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::string> directories_;
  std::vector<std::string> locks_;
  std::vector<FileCallLog> log_;
  uint64_t calls_ = 0;
  uint64_t fault_at_ = UINT64_MAX;
  FileFault fault_ = FileFault::kNone;
  bool has_fired_ = false;
  double chance_ = 0;
  FileFault chance_fault_ = FileFault::kNone;
  bool is_dead_ = false;
  bool is_read_only_ = false;
  uint64_t room_bytes_ = UINT64_MAX;
  uint64_t life_ = 0;  // of the machine: files that were opened in another one are gone
};

}  // namespace rhizome
