// Staging memory: where a client puts what it hands to the node, tokens and payloads, since it never has a writable
// view of the slab. One memory file a client, Sharing::kWritable; the client maps it Access::kWrite, the node
// Access::kReadWritable, and copies before it believes anything: the bytes may change at any time.
//
// Thread-safety: a StagingArea may be used from any thread, a StagingPiece by one at a time; a StagingView from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "concurrency/mutex.h"
#include "contract/result.h"

namespace rhizome {

class StagingArea;

// A part of the area, writable, given back on destruction; it must not outlive its area.
class StagingPiece {
 public:
  StagingPiece() = default;
  ~StagingPiece() { give_back(); }
  StagingPiece(StagingPiece&& other) noexcept;
  StagingPiece& operator=(StagingPiece&& other) noexcept;

  // As it is named to the node.
  uint64_t offset() const { return offset_; }
  // Zeros, or what was in it before.
  std::span<std::byte> bytes() const { return bytes_; }
  void give_back();

 private:
  friend class StagingArea;
  StagingPiece(StagingArea* area, uint64_t offset, std::span<std::byte> bytes)
      : area_(area), offset_(offset), bytes_(bytes) {}

  StagingArea* area_ = nullptr;
  uint64_t offset_ = 0;
  std::span<std::byte> bytes_;
};

// The client's side: first fit, pieces in any order.
class StagingArea {
 public:
  static constexpr uint64_t kAlignment = 64;
  static constexpr size_t kPiecesMax = 4096;

  // `memory` begins at a multiple of kAlignment and outlives the area.
  explicit StagingArea(std::span<std::byte> memory);
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  uint64_t bytes() const { return memory_.size(); }

  // `bytes` > 0, at a multiple of kAlignment. None: no room of that length now; never, when it is longer than the area.
  std::optional<StagingPiece> take(uint64_t bytes) EXCLUDES(mutex_);

  uint64_t free_bytes() const EXCLUDES(mutex_);

 private:
  friend class StagingPiece;
  void give_back(uint64_t offset, uint64_t bytes) EXCLUDES(mutex_);

  const std::span<std::byte> memory_;
  mutable Mutex mutex_;
  std::map<uint64_t, uint64_t> free_ GUARDED_BY(mutex_);  // offset to length: apart from each other
  size_t pieces_ GUARDED_BY(mutex_) = 0;
};

// The node's side.
class StagingView {
 public:
  StagingView() = default;
  // `memory` outlives the view.
  explicit StagingView(std::span<const std::byte> memory) : memory_(memory) {}

  // What the client named. kOutOfRange: not all of it lies in the staging memory.
  Result<std::span<const std::byte>> view(uint64_t offset, uint64_t bytes) const {
    if (offset > memory_.size() || bytes > memory_.size() - offset) {
      return fail(Code::kOutOfRange, "outside of the staging memory");
    }
    return memory_.subspan(offset, bytes);
  }
  // The same for `count` parts of `part_bytes` each, one behind the other.
  Result<std::span<const std::byte>> view_parts(uint64_t offset, uint64_t count, uint64_t part_bytes) const {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, part_bytes, &bytes)) {
      return fail(Code::kOutOfRange, "outside of the staging memory");
    }
    return view(offset, bytes);
  }

 private:
  std::span<const std::byte> memory_;
};

}  // namespace rhizome
