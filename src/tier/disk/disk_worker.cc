#include "tier/disk/disk_worker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "contract/check.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Few: what has ended is verified before something new is begun, and the device shall not wait for that.
constexpr size_t kCollectedTogether = 1;
constexpr uint64_t kIdleWaitNs = 60'000'000'000;
// A clock that a test moves does not wake anybody: so often it is looked at while something waits for it.
constexpr uint64_t kTimerWaitNs = 50'000'000;

}  // namespace

// One read of a record, into the caller's memory or into the tier's own.
class DiskTier::Worker::Read final : public RingTask {
 public:
  Read(Worker& worker, const TierRequest& request, const RecordPlace& place, std::span<std::byte> memory)
      : worker_(worker), request_(request), place_(place), memory_(memory) {}

  void finish(bool is_ok, const Error& error) override {
    const std::unique_ptr<Read> self(this);
    worker_.read_bytes_under_way_ -= memory_.size();
    // The device goes on while this one is verified.
    worker_.begin_reads();
    worker_.device_.ring->start();
    Segment& segment = worker_.log_->segment(place_.segment);
    --segment.readers;
    DiskCounts::add(worker_.device_.counts.read_bytes, memory_.size());
    const std::optional<Error> failed = is_ok ? verify(segment) : device_error(error);
    if (failed) {
      worker_.device_.forget(request_.key, place_);
      worker_.end(request_, TierOutcome::kFailed, 0, 0, *failed);
    } else {
      worker_.device_.index.count_read(request_.key, place_);
      const std::span<const std::byte> image = memory_.subspan(kRecordHeadBytes, place_.image_bytes);
      if (!is_direct()) std::copy(image.begin(), image.end(), request_.into.begin());
      worker_.end(request_, TierOutcome::kDone, image.size(), is_direct() ? kRecordHeadBytes : 0);
    }
    if (!is_direct()) worker_.read_buffers_.release(memory_);
  }

 private:
  bool is_direct() const { return memory_.data() == request_.into.data(); }

  std::optional<Error> device_error(const Error& error) {
    worker_.device_.count_read_error();
    log_once("disk tier read", "{}: the disk tier cannot read: {}", worker_.device_.options.directory, error.reason);
    return error;
  }

  std::optional<Error> verify(const Segment& segment) {
    const RecordHead expected{.segment = segment.number,
                              .generation = segment.generation,
                              .lsn = 0,
                              .key = request_.key,
                              .image_bytes = place_.image_bytes,
                              .image_checksum = 0};
    const auto failed = check_record(memory_, expected, worker_.device_.options.checks);
    if (!failed) return std::nullopt;
    DiskCounts::add(worker_.device_.counts.verify_failures[static_cast<size_t>(*failed)]);
    log_once("disk tier verify", "{}: {}", worker_.device_.options.directory, record_check_reason(*failed));
    return Error{Code::kDataLoss, record_check_reason(*failed)};
  }

  Worker& worker_;
  const TierRequest request_;
  const RecordPlace place_;
  const std::span<std::byte> memory_;
};

// The end of a flush().
class DiskTier::Worker::Sync final : public RingTask {
 public:
  explicit Sync(Worker& worker) : worker_(worker) {}
  void finish(bool is_ok, const Error& error) override {
    if (!is_ok) {
      log_error("{}: the disk tier cannot sync: {}", worker_.device_.options.directory, error.reason);
      worker_.device_.count_write_error();
    }
    worker_.flush_step_ = FlushStep::kSeals;
  }

 private:
  Worker& worker_;
};

DiskTier::Worker::Worker(const DiskTierOptions& options) : device_(options), queue_(options.requests_max) {}

Status DiskTier::Worker::open() {
  const uint64_t start_ns = monotonic_now_ns();
  Result<SegmentPool> pool = open_segment_pool(device_);
  if (!pool) return fail(pool.error());
  left_alone_ = pool->left_alone;
  recovered_images_ = pool->recovered_images;
  log_ = std::make_unique<SegmentLog>(device_, std::move(*pool));
  image_bytes_max_ = log_->image_bytes_max();
  sync_ = std::make_unique<Sync>(*this);
  if (const Status done = log_->allocate_buffers(); !done) return done;
  if (const Status done = read_buffers_.allocate(); !done) return done;
  RingOptions options{
      .kind = device_.options.ring,
      .files = {},
      .memory = device_.options.caller_memory,
      .bytes_in_flight_max = device_.options.read_bytes_in_flight_max + 2 * device_.options.append_bytes};
  log_->add_to(options);
  options.memory.push_back(read_buffers_.region());
  Result<std::unique_ptr<FileRing>> ring = FileRing::create(options);
  if (!ring) return fail(ring.error());
  device_.ring = std::move(*ring);
  recovery_ns_ = monotonic_now_ns() - start_ns;
  log_info("{}: disk tier of {} MiB, {} images found, I/O ring: {}", device_.options.directory,
           log_->segment_bytes() * log_->segments_count() >> 20, recovered_images_,
           ring_kind_name(device_.ring->kind()));
  Result<Thread> thread = start_thread("rhizome-disk", [this](const std::stop_token& stop) { run(stop); });
  if (!thread) return fail(thread.error());
  thread_ = std::move(*thread);
  return {};
}

DiskTier::Worker::~Worker() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  device_.ring->wake();
  thread_.join();
}

void DiskTier::Worker::wake() {
  // Pairs with run(): either it sees the request before it sleeps, or this sees it sleep.
  if (is_sleeping_.exchange(false)) device_.ring->wake();
}

void DiskTier::Worker::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    begin_requests();
    const uint64_t due_ns = log_->work(device_.clock.monotonic_ns());
    // What has just ended there may be all that they waited for: the ring would not wake this thread for it.
    if (waiting_write_) try_write();
    follow_flush();
    uint64_t wait_ns = due_ns == UINT64_MAX ? kIdleWaitNs : std::min(due_ns, kTimerWaitNs);
    is_sleeping_.store(true);
    const bool can_begin = (queue_.has_others() && read_bytes_under_way_ < device_.options.read_bytes_in_flight_max) ||
                           (queue_.has_writes() && !waiting_write_ && !is_flushing()) ||
                           (is_flush_wanted_.load() && !is_flushing());
    if (can_begin || stop.stop_requested()) wait_ns = 0;
    collect(wait_ns);
    is_sleeping_.store(false);
  }
  drain();
}

void DiskTier::Worker::collect(uint64_t wait_ns) {
  std::array<RingCompletion, kCollectedTogether> ended;
  const size_t count = device_.ring->collect(ended, wait_ns);
  for (const RingCompletion& one : std::span(ended).first(count))
    RingTask::of(one.tag).finish(one.is_ok, one.error);
}

void DiskTier::Worker::begin_reads() {
  while (!is_draining_ && read_bytes_under_way_ < device_.options.read_bytes_in_flight_max) {
    const std::optional<TierRequest> request = queue_.begin_other();
    if (!request) break;
    begin(*request);
  }
}

// Reads first, and then one write, so that neither waits for ever.
void DiskTier::Worker::begin_requests() {
  begin_reads();
  if (is_flushing()) return;
  while (try_write()) {
    // The device shall not wait until everything is copied.
    if (queue_.has_others() || device_.ring->has_waiting()) break;
  }
}

bool DiskTier::Worker::try_write() {
  if (!waiting_write_) waiting_write_ = queue_.begin_write();
  if (!waiting_write_) return false;
  const TierRequest request = *waiting_write_;
  if (device_.clock.monotonic_ns() >= request.deadline_ns) {
    waiting_write_.reset();
    end(request, TierOutcome::kLate);
    return true;
  }
  const AppendResult result = log_->append(request.key, request.from);
  if (result == AppendResult::kBusy) return false;
  waiting_write_.reset();
  const bool is_done = result == AppendResult::kDone;
  end(request, is_done ? TierOutcome::kDone : TierOutcome::kRefused, is_done ? request.from.size() : 0);
  return true;
}

void DiskTier::Worker::begin(const TierRequest& request) {
  if (device_.clock.monotonic_ns() >= request.deadline_ns) return end(request, TierOutcome::kLate);
  const std::optional<RecordPlace> place = device_.index.find(request.key);
  if (!place || device_.health.mode() == DiskMode::kOffline) return end(request, TierOutcome::kMissing);
  if (request.operation == TierOperation::kFind) return end(request, TierOutcome::kDone, place->image_bytes);
  if (request.operation == TierOperation::kRead) return begin_read(request, *place);
  device_.index.erase(request.key, *place);
  log_->remove(*place);
  end(request, TierOutcome::kDone, place->image_bytes);
}

void DiskTier::Worker::begin_read(const TierRequest& request, const RecordPlace& place) {
  if (request.into.size() < place.image_bytes) return end(request, TierOutcome::kTooSmall, place.image_bytes);
  const std::span<const std::byte> kept = log_->find_in_buffers(place);
  if (!kept.empty()) {
    device_.index.count_read(request.key, place);
    const std::span<const std::byte> image = kept.subspan(kRecordHeadBytes, place.image_bytes);
    std::copy(image.begin(), image.end(), request.into.begin());
    return end(request, TierOutcome::kDone, place.image_bytes);
  }
  const uint64_t bytes = record_bytes(place.image_bytes);
  const bool is_direct =
      request.into.size() >= bytes && reinterpret_cast<uintptr_t>(request.into.data()) % kDirectAlignment == 0;
  const std::span<std::byte> memory = is_direct ? request.into : read_buffers_.take(bytes);
  if (memory.size() < bytes)
    return end(request, TierOutcome::kFailed, 0, 0, {Code::kResourceExhausted, "no memory to read into"});
  const std::span<std::byte> used = memory.first(bytes);
  ++log_->segment(place.segment).readers;
  read_bytes_under_way_ += bytes;
  RingTask* const task = new Read(*this, request, place, used);
  device_.ring->submit({.tag = task->tag(),
                        .action = RingAction::kRead,
                        .file = place.segment,
                        .offset = place.page * kPageBytes,
                        .bytes = used});
}

void DiskTier::Worker::end(const TierRequest& request, TierOutcome outcome, uint64_t bytes, uint64_t offset,
                           Error error) {
  queue_.finish({.tag = request.tag, .outcome = outcome, .bytes = bytes, .offset = offset, .error = error});
}

Status DiskTier::Worker::flush(uint64_t wait_ns) {
  uint64_t wanted = 0;
  {
    const MutexLock lock(flush_mutex_);
    wanted = ++flush_wanted_;
  }
  is_flush_wanted_.store(true);
  wake();
  const uint64_t start_ns = monotonic_now_ns();
  const MutexLock lock(flush_mutex_);
  while (flush_done_ < wanted) {
    const uint64_t waited_ns = monotonic_now_ns() - start_ns;
    if (waited_ns >= wait_ns) return fail(Code::kDeadlineExceeded, "the disk tier is still writing");
    flush_changed_.wait_for(flush_mutex_, wait_ns - waited_ns);
  }
  return flush_status_;
}

void DiskTier::Worker::follow_flush() {
  if (flush_step_ == FlushStep::kNone) {
    // What was submitted before flush() was called is written first.
    if (!is_flush_wanted_.load() || queue_.has_writes() || waiting_write_) return;
    is_flush_wanted_.store(false);
    const MutexLock lock(flush_mutex_);
    flush_serving_ = flush_wanted_;
    flush_step_ = FlushStep::kBuffers;
  }
  if (flush_step_ == FlushStep::kBuffers) {
    log_->flush_buffer();
    if (!log_->is_written()) return;
    flush_step_ = FlushStep::kSeals;
    const uint32_t open = log_->open_segment();
    if (open != kNoSegment && device_.health.mode() == DiskMode::kGood) {
      flush_step_ = FlushStep::kSync;
      device_.ring->submit({.tag = sync_->tag(), .action = RingAction::kSync, .file = open, .offset = 0, .bytes = {}});
    }
  }
  if (flush_step_ != FlushStep::kSeals || !log_->is_settled()) return;
  if (device_.health.mode() != DiskMode::kGood)
    return end_flush(fail(Code::kUnavailable, "the disk tier does not write any more"));
  end_flush({});
}

void DiskTier::Worker::end_flush(const Status& status) {
  const MutexLock lock(flush_mutex_);
  flush_done_ = flush_serving_;
  flush_status_ = status;
  flush_step_ = FlushStep::kNone;
  flush_changed_.notify_all();
}

// Nothing is begun any more; what was begun ends, and everything that is not written yet is.
void DiskTier::Worker::drain() {
  is_draining_ = true;
  while (device_.ring->under_way() > 0)
    collect(kTimerWaitNs);
  log_->close();
  for (;;) {
    log_->work(device_.clock.monotonic_ns());
    if (log_->is_settled() && device_.ring->under_way() == 0) break;
    collect(kTimerWaitNs);
  }
  if (flush_step_ != FlushStep::kNone) end_flush(fail(Code::kCancelled, "the disk tier is being closed"));
}

DiskUsage DiskTier::Worker::disk_usage() const {
  const DiskCounts& counts = device_.counts;
  DiskUsage usage;
  usage.segments = log_->segments_count();
  usage.segment_bytes = log_->segment_bytes();
  usage.segments_left_alone = left_alone_;
  usage.read_bytes = counts.read_bytes.load();
  usage.written_bytes = counts.written_bytes.load();
  for (size_t i = 0; i < kRecordChecksCount; ++i)
    usage.verify_failures[i] = counts.verify_failures[i].load();
  usage.reclaimed_segments = counts.reclaimed_segments.load();
  usage.reclaimed_images = counts.reclaimed_images.load();
  usage.reinserted_images = counts.reinserted_images.load();
  usage.reinserted_bytes = counts.reinserted_bytes.load();
  usage.read_errors = counts.read_errors.load();
  usage.write_errors = counts.write_errors.load();
  usage.refused_by_budget = counts.refused_by_budget.load();
  usage.recovered_images = recovered_images_;
  usage.recovery_ns = recovery_ns_;
  usage.mode = device_.health.mode();
  return usage;
}

}  // namespace rhizome
