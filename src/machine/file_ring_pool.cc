// Threads that call pread and pwrite, and the ring that does all in place. Work and results travel through pipes: each
// message is one pointer, which a pipe hands over whole.
#include <cerrno>
#include <climits>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/file_ring_backends.h"
#include "machine/files.h"
#include "machine/thread.h"

namespace rhizome::internal {
namespace {

constexpr size_t kThreads = 4;
constexpr size_t kPiecesMax = 256;  // far below what a pipe holds: nobody ever waits to put something in

// As the kernel's codes: the inverse of error_from_errno() for what a File gives.
int errno_of(const Error& error) {
  switch (error.code) {
    case Code::kResourceExhausted:
      return ENOSPC;
    case Code::kPermissionDenied:
      return EROFS;
    case Code::kInvalidArgument:
      return EINVAL;
    default:
      return EIO;
  }
}

int64_t result_of(const Result<size_t>& done) {
  return done ? static_cast<int64_t>(*done) : -errno_of(done.error());
}

class Pipe {
 public:
  bool open() { return ::pipe2(ends_, O_CLOEXEC) == 0; }
  ~Pipe() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }

  void put(void* pointer) const {
    ssize_t put = -1;
    do {
      put = ::write(ends_[1], static_cast<const void*>(&pointer), sizeof pointer);
    } while (put < 0 && errno == EINTR);
    RHIZOME_CHECK(put == sizeof pointer);
  }
  void* get() const {
    void* pointer = nullptr;
    ssize_t got = -1;
    do {
      got = ::read(ends_[0], static_cast<void*>(&pointer), sizeof pointer);
    } while (got < 0 && errno == EINTR);
    RHIZOME_CHECK(got == sizeof pointer);
    return pointer;
  }
  bool has_some() const {
    pollfd one{ends_[0], POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
  }
  int readable() const { return ends_[0]; }

 private:
  int ends_[2] = {-1, -1};
};

class PoolRing final : public FileRing {
 public:
  explicit PoolRing(const RingOptions& options) : FileRing(RingKind::kPool, options) {}

  ~PoolRing() override {
    for (size_t i = 0; i < threads_.size(); ++i)
      work_.put(nullptr);
    threads_.clear();
  }

  Status open() {
    auto wakeup = Wakeup::create();
    if (!wakeup) return fail(wakeup.error());
    wakeup_ = std::move(*wakeup);
    if (!work_.open() || !results_.open()) return fail(error_from_errno(errno, "no pipe for the threads that read"));
    for (PieceEnd& piece : pieces_)
      free_.push_back(&piece);
    for (size_t i = 0; i < kThreads; ++i) {
      Result<Thread> thread = start_thread("rhizome-io", [this] { run(); });
      if (!thread) return fail(thread.error());
      threads_.push_back(std::move(*thread));
    }
    return {};
  }

  void wake() override { wakeup_->wake(); }

 protected:
  bool start(const Piece& piece) override {
    if (free_.empty()) return false;
    PieceEnd* const end = free_.back();
    free_.pop_back();
    end->piece = piece;
    work_.put(end);
    return true;
  }

  void reap(std::vector<PieceEnd>& ended, uint64_t wait_ns) override {
    if (wait_ns > 0) wakeup_->wait(results_.readable(), wait_ns);
    wakeup_->clear();
    while (free_.size() < kPiecesMax && results_.has_some()) {
      PieceEnd* const end = static_cast<PieceEnd*>(results_.get());
      ended.push_back(*end);
      free_.push_back(end);
    }
  }

 private:
  void run() {
    while (PieceEnd* const end = static_cast<PieceEnd*>(work_.get())) {
      const Piece& piece = end->piece;
      File& on = file(piece.file);
      if (piece.action == RingAction::kSync) {
        const Status done = on.sync_data();
        end->result = done ? 0 : -errno_of(done.error());
      } else {
        end->result = result_of(piece.action == RingAction::kRead ? on.read_at(piece.offset, piece.bytes)
                                                                  : on.write_at(piece.offset, piece.bytes));
      }
      results_.put(end);
    }
  }

  std::unique_ptr<Wakeup> wakeup_;
  Pipe work_;
  Pipe results_;
  std::vector<PieceEnd> pieces_ = std::vector<PieceEnd>(kPiecesMax);
  std::vector<PieceEnd*> free_;
  std::vector<Thread> threads_;
};

class SynchronousRing final : public FileRing {
 public:
  SynchronousRing(const RingOptions& options, std::unique_ptr<Wakeup> wakeup)
      : FileRing(RingKind::kSynchronous, options), wakeup_(std::move(wakeup)) {}

  void wake() override { wakeup_->wake(); }

 protected:
  bool start(const Piece& piece) override {
    File& on = file(piece.file);
    int64_t result = 0;
    if (piece.action == RingAction::kSync) {
      const Status done = on.sync_data();
      result = done ? 0 : -errno_of(done.error());
    } else {
      result = result_of(piece.action == RingAction::kRead ? on.read_at(piece.offset, piece.bytes)
                                                           : on.write_at(piece.offset, piece.bytes));
    }
    results_.push_back({piece, result});
    return true;
  }

  void reap(std::vector<PieceEnd>& ended, uint64_t wait_ns) override {
    if (results_.empty() && wait_ns > 0) wakeup_->wait(-1, wait_ns);
    wakeup_->clear();
    ended.insert(ended.end(), results_.begin(), results_.end());
    results_.clear();
  }

 private:
  const std::unique_ptr<Wakeup> wakeup_;
  std::vector<PieceEnd> results_;
};

}  // namespace

Result<std::unique_ptr<Wakeup>> Wakeup::create() {
  const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) return fail(error_from_errno(errno, "no eventfd"));
  return std::unique_ptr<Wakeup>(new Wakeup(descriptor));
}

Wakeup::~Wakeup() {
  ::close(descriptor_);
}

void Wakeup::wake() const {
  const uint64_t one = 1;
  ssize_t put = -1;
  do {
    put = ::write(descriptor_, &one, sizeof one);
  } while (put < 0 && errno == EINTR);
}

void Wakeup::clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor_, &count, sizeof count);
}

void Wakeup::wait(int other, uint64_t wait_ns) const {
  pollfd both[2] = {{descriptor_, POLLIN, 0}, {other, POLLIN, 0}};
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const timespec time{static_cast<time_t>(std::min<uint64_t>(wait_ns / kSecondNs, 1'000'000)),
                      static_cast<long>(wait_ns % kSecondNs)};
  ::ppoll(both, other < 0 ? 1 : 2, &time, nullptr);
}

Result<std::unique_ptr<FileRing>> make_pool_ring(const RingOptions& options) {
  auto ring = std::make_unique<PoolRing>(options);
  if (const Status opened = ring->open(); !opened) return fail(opened.error());
  return ring;
}

Result<std::unique_ptr<FileRing>> make_synchronous_ring(const RingOptions& options) {
  auto wakeup = Wakeup::create();
  if (!wakeup) return fail(wakeup.error());
  return std::make_unique<SynchronousRing>(options, std::move(*wakeup));
}

}  // namespace rhizome::internal
