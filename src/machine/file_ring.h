// Many reads and writes of files at once: submit, collect. The event loop of one thread that does I/O.
//
// Reads go before writes, a read longer than kReadPieceBytes is split so that a short one need not wait behind it, and
// the bytes that the device works on at a time are bounded; what is beyond waits here.
//
// Backends: io_uring with registered files and memory, io_uring without, a pool of threads that call pread and pwrite;
// auto takes the first that the machine allows (a container's seccomp profile may forbid io_uring, RLIMIT_MEMLOCK the
// registering). `synchronous` does each operation while it is submitted, over any File: the simulated twin.
//
// Thread-safety: belongs to one thread at a time; wake() may be called from anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "contract/result.h"
#include "machine/file_system.h"

namespace rhizome {

enum class RingKind : uint8_t { kAuto, kRegistered, kPlain, kPool, kSynchronous };
// "registered", "plain", "pool", "synchronous".
std::string_view ring_kind_name(RingKind kind);

inline constexpr size_t kReadPieceBytes = (1 << 20) + (64 << 10);

enum class RingAction : uint8_t { kRead, kWrite, kSync };

struct RingOperation {
  uint64_t tag = 0;
  RingAction action = RingAction::kRead;
  uint32_t file = 0;  // index into RingOptions::files
  uint64_t offset = 0;
  // Read into or written from. The ring never changes what is written.
  std::span<std::byte> bytes = {};
};

struct RingCompletion {
  uint64_t tag = 0;
  bool is_ok = false;  // all bytes were read or written
  Error error = {};    // kDataLoss for one that was short
};

struct RingOptions {
  RingKind kind = RingKind::kAuto;
  std::vector<File*> files = {};  // outlive the ring
  // Where most buffers lie; outlives the ring. The rest goes as well, a little slower.
  std::vector<std::span<std::byte>> memory = {};
  size_t bytes_in_flight_max = 8 << 20;
};

class FileRing {
 public:
  // kUnavailable when `kind` is one that this machine does not allow; auto and pool need threads or io_uring.
  static Result<std::unique_ptr<FileRing>> create(const RingOptions& options);

  virtual ~FileRing() = default;
  FileRing(const FileRing&) = delete;
  FileRing& operator=(const FileRing&) = delete;

  RingKind kind() const { return kind_; }
  void submit(const RingOperation& operation);
  // Hands what was submitted to the device, as far as there is room; collect() does so, too.
  void start();
  // What is done, up to out.size(). Waits at most `wait_ns` for something to happen: also a part of an operation, or a
  // call of wake(), so it may give nothing early.
  size_t collect(std::span<RingCompletion> out, uint64_t wait_ns);
  // Operations submitted and not collected.
  size_t under_way() const { return under_way_; }
  // Some of what was submitted has not been handed to the device yet; collect() does that, where there is room.
  bool has_waiting() const { return !reads_.empty() || !writes_.empty(); }
  // Ends a collect() that waits, or the next one.
  virtual void wake() = 0;

 protected:
  struct Piece {
    uint32_t operation = 0;  // its place in operations_
    RingAction action = RingAction::kRead;
    uint32_t file = 0;
    uint64_t offset = 0;
    std::span<std::byte> bytes = {};
  };
  struct PieceEnd {
    Piece piece;
    int64_t result = 0;  // bytes, or the negative errno
  };

  FileRing(RingKind kind, const RingOptions& options)
      : kind_(kind), files_(options.files), bytes_in_flight_max_(options.bytes_in_flight_max) {}

  // False: no room now.
  virtual bool start(const Piece& piece) = 0;
  // After some were started.
  virtual void push() {}
  // What has ended. Waits at most `wait_ns` when nothing has, and not at all after wake().
  virtual void reap(std::vector<PieceEnd>& ended, uint64_t wait_ns) = 0;
  File& file(uint32_t index) const { return *files_[index]; }

 private:
  struct Operation {
    uint64_t tag = 0;
    uint32_t pieces_left = 0;
    bool is_ok = true;
    Error error = {};
  };

  void start_waiting();
  void take(const PieceEnd& end);

  const RingKind kind_;
  const std::vector<File*> files_;
  const size_t bytes_in_flight_max_;
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_operations_;
  std::deque<Piece> reads_;   // wait for room
  std::deque<Piece> writes_;  // and syncs
  std::deque<RingCompletion> done_;
  std::vector<PieceEnd> ended_;
  size_t under_way_ = 0;
  size_t bytes_in_flight_ = 0;
};

}  // namespace rhizome
