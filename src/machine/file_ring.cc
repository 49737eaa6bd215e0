#include "machine/file_ring.h"

#include <algorithm>

#include "contract/check.h"
#include "machine/file_ring_backends.h"
#include "machine/files.h"

namespace rhizome {

std::string_view ring_kind_name(RingKind kind) {
  switch (kind) {
    case RingKind::kAuto:
      return "auto";
    case RingKind::kRegistered:
      return "registered";
    case RingKind::kPlain:
      return "plain";
    case RingKind::kPool:
      return "pool";
    case RingKind::kSynchronous:
      return "synchronous";
  }
  return "unknown";
}

Result<std::unique_ptr<FileRing>> FileRing::create(const RingOptions& options) {
  const bool all_real =
      std::all_of(options.files.begin(), options.files.end(), [](const File* file) { return file->descriptor() >= 0; });
  if (options.kind == RingKind::kSynchronous || !all_real) return internal::make_synchronous_ring(options);
  if (options.kind == RingKind::kRegistered) return internal::make_uring(options, true);
  if (options.kind == RingKind::kPlain) return internal::make_uring(options, false);
  if (options.kind == RingKind::kPool) return internal::make_pool_ring(options);
  if (auto ring = internal::make_uring(options, true)) return ring;
  if (auto ring = internal::make_uring(options, false)) return ring;
  return internal::make_pool_ring(options);
}

void FileRing::submit(const RingOperation& operation) {
  RHIZOME_CHECK(operation.file < files_.size());
  uint32_t place = static_cast<uint32_t>(operations_.size());
  if (free_operations_.empty()) {
    operations_.emplace_back();
  } else {
    place = free_operations_.back();
    free_operations_.pop_back();
  }
  Operation& kept = operations_[place] = {.tag = operation.tag, .pieces_left = 0, .is_ok = true, .error = {}};
  ++under_way_;
  Piece piece{place, operation.action, operation.file, operation.offset, operation.bytes};
  if (operation.action != RingAction::kRead) {
    kept.pieces_left = 1;
    writes_.push_back(piece);
    return;
  }
  std::span<std::byte> rest = operation.bytes;
  do {
    piece.bytes = rest.first(std::min(rest.size(), kReadPieceBytes));
    reads_.push_back(piece);
    ++kept.pieces_left;
    rest = rest.subspan(piece.bytes.size());
    piece.offset += piece.bytes.size();
  } while (!rest.empty());
}

void FileRing::start_waiting() {
  while (!reads_.empty() || !writes_.empty()) {
    std::deque<Piece>& from = reads_.empty() ? writes_ : reads_;
    const size_t bytes = from.front().bytes.size();
    // One may be longer than the bound: it goes alone.
    if (bytes_in_flight_ > 0 && bytes_in_flight_ + bytes > bytes_in_flight_max_) return;
    if (!start(from.front())) return;
    bytes_in_flight_ += bytes;
    from.pop_front();
  }
}

void FileRing::start() {
  if (!has_waiting()) return;
  start_waiting();
  push();
}

void FileRing::take(const PieceEnd& end) {
  const Piece& piece = end.piece;
  Operation& operation = operations_[piece.operation];
  bytes_in_flight_ -= piece.bytes.size();
  if (end.result < 0) {
    operation.is_ok = false;
    operation.error = error_from_errno(static_cast<int>(-end.result), "the device failed");
  } else if (piece.action != RingAction::kSync && static_cast<size_t>(end.result) != piece.bytes.size()) {
    if (operation.is_ok) operation.error = {Code::kDataLoss, "the device did less than it was asked for"};
    operation.is_ok = false;
  }
  if (--operation.pieces_left > 0) return;
  done_.push_back({operation.tag, operation.is_ok, operation.error});
  free_operations_.push_back(piece.operation);
}

size_t FileRing::collect(std::span<RingCompletion> out, uint64_t wait_ns) {
  start_waiting();
  reap(ended_, done_.empty() ? wait_ns : 0);
  for (const PieceEnd& end : ended_)
    take(end);
  ended_.clear();
  start_waiting();
  const size_t count = std::min(out.size(), done_.size());
  std::copy(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count), out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
  under_way_ -= count;
  return count;
}

}  // namespace rhizome
