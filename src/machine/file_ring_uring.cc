// io_uring, by liburing.
#include <cerrno>
#include <memory>
#include <vector>

#include <liburing.h>
#include <sys/uio.h>

#include "contract/check.h"
#include "machine/file_ring_backends.h"
#include "machine/files.h"

namespace rhizome::internal {
namespace {

constexpr unsigned kEntries = 128;
// One entry is the wait for wake().
constexpr size_t kPiecesMax = kEntries - 1;
constexpr uint64_t kSecondNs = 1'000'000'000;

class UringRing final : public FileRing {
 public:
  UringRing(const RingOptions& options, bool is_registered, std::unique_ptr<Wakeup> wakeup)
      : FileRing(is_registered ? RingKind::kRegistered : RingKind::kPlain, options),
        is_registered_(is_registered),
        wakeup_(std::move(wakeup)) {}

  ~UringRing() override {
    if (is_open_) ::io_uring_queue_exit(&ring_);
  }

  Status open(const RingOptions& options) {
    const int failed = ::io_uring_queue_init(kEntries, &ring_, 0);
    if (failed < 0) return fail(Code::kUnavailable, "the kernel gives no io_uring");
    is_open_ = true;
    if (!can_do_all()) return fail(Code::kUnavailable, "the kernel's io_uring is too old");
    for (PieceEnd& piece : pieces_)
      free_.push_back(&piece);
    if (is_registered_ && !register_all(options))
      return fail(Code::kUnavailable, "the kernel registers no memory or files for io_uring");
    return {};
  }

  void wake() override { wakeup_->wake(); }

 protected:
  bool start(const Piece& piece) override {
    if (free_.empty()) return false;
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    PieceEnd* const end = free_.back();
    free_.pop_back();
    end->piece = piece;
    const int on = is_registered_ ? static_cast<int>(piece.file) : file(piece.file).descriptor();
    const unsigned bytes = static_cast<unsigned>(piece.bytes.size());
    const int region = is_registered_ ? region_of(piece.bytes) : -1;
    if (piece.action == RingAction::kSync) {
      ::io_uring_prep_fsync(entry, on, IORING_FSYNC_DATASYNC);
    } else if (piece.action == RingAction::kRead && region >= 0) {
      ::io_uring_prep_read_fixed(entry, on, piece.bytes.data(), bytes, piece.offset, region);
    } else if (piece.action == RingAction::kRead) {
      ::io_uring_prep_read(entry, on, piece.bytes.data(), bytes, piece.offset);
    } else if (region >= 0) {
      ::io_uring_prep_write_fixed(entry, on, piece.bytes.data(), bytes, piece.offset, region);
    } else {
      ::io_uring_prep_write(entry, on, piece.bytes.data(), bytes, piece.offset);
    }
    if (is_registered_) ::io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    ::io_uring_sqe_set_data(entry, end);
    return true;
  }

  void push() override { ::io_uring_submit(&ring_); }

  void reap(std::vector<PieceEnd>& ended, uint64_t wait_ns) override {
    if (!waits_for_wake_) start_wait_for_wake();
    io_uring_cqe* first = nullptr;
    if (wait_ns == 0) {
      ::io_uring_submit(&ring_);
    } else {
      __kernel_timespec time{static_cast<int64_t>(std::min<uint64_t>(wait_ns / kSecondNs, 1'000'000)),
                             static_cast<long long>(wait_ns % kSecondNs)};
      ::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &time, nullptr);
    }
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* entry = nullptr;
    io_uring_for_each_cqe(&ring_, head, entry) {
      ++count;
      PieceEnd* const end = static_cast<PieceEnd*>(::io_uring_cqe_get_data(entry));
      if (end == nullptr) {
        waits_for_wake_ = false;
        wakeup_->clear();
        continue;
      }
      end->result = entry->res;
      ended.push_back(*end);
      free_.push_back(end);
    }
    ::io_uring_cq_advance(&ring_, count);
  }

 private:
  bool can_do_all() {
    io_uring_probe* const probe = ::io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return false;
    bool all = (ring_.features & IORING_FEAT_EXT_ARG) != 0;  // a wait with a time limit that takes no entry
    for (const int operation : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_POLL_ADD,
                                IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED})
      all = all && ::io_uring_opcode_supported(probe, operation) != 0;
    ::io_uring_free_probe(probe);
    return all;
  }

  bool register_all(const RingOptions& options) {
    std::vector<int> descriptors;
    for (const File* one : options.files)
      descriptors.push_back(one->descriptor());
    if (!descriptors.empty() &&
        ::io_uring_register_files(&ring_, descriptors.data(), static_cast<unsigned>(descriptors.size())) < 0)
      return false;
    std::vector<iovec> regions;
    for (const std::span<std::byte> bytes : options.memory) {
      // The kernel takes a region of 1 GiB at most.
      constexpr size_t kRegionBytesMax = size_t{1} << 30;
      for (std::span<std::byte> rest = bytes; !rest.empty();) {
        const std::span<std::byte> region = rest.first(std::min(rest.size(), kRegionBytesMax));
        regions.push_back({region.data(), region.size()});
        regions_.push_back(region);
        rest = rest.subspan(region.size());
      }
    }
    return regions.empty() ||
           ::io_uring_register_buffers(&ring_, regions.data(), static_cast<unsigned>(regions.size())) == 0;
  }

  int region_of(std::span<const std::byte> bytes) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (bytes.data() >= regions_[i].data() && bytes.data() + bytes.size() <= regions_[i].data() + regions_[i].size())
        return static_cast<int>(i);
    }
    return -1;
  }

  void start_wait_for_wake() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;
    ::io_uring_prep_poll_add(entry, wakeup_->descriptor(), 1 /* POLLIN */);
    ::io_uring_sqe_set_data(entry, nullptr);
    waits_for_wake_ = true;
  }

  const bool is_registered_;
  const std::unique_ptr<Wakeup> wakeup_;
  io_uring ring_{};
  bool is_open_ = false;
  bool waits_for_wake_ = false;
  std::vector<std::span<std::byte>> regions_;
  std::vector<PieceEnd> pieces_ = std::vector<PieceEnd>(kPiecesMax);
  std::vector<PieceEnd*> free_;
};

}  // namespace

Result<std::unique_ptr<FileRing>> make_uring(const RingOptions& options, bool is_registered) {
  auto wakeup = Wakeup::create();
  if (!wakeup) return fail(wakeup.error());
  auto ring = std::make_unique<UringRing>(options, is_registered, std::move(*wakeup));
  if (const Status opened = ring->open(options); !opened) return fail(opened.error());
  return ring;
}

}  // namespace rhizome::internal
