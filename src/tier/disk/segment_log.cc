#include "tier/disk/segment_log.h"

#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr size_t kBuffersCount = 4;

}  // namespace

SegmentLog::SegmentLog(DiskDevice& device, SegmentPool pool)
    : device_(device),
      segments_(std::move(pool.segments)),
      segment_bytes_(pool.segment_bytes),
      next_lsn_(pool.next_lsn),
      next_generation_(pool.next_generation),
      open_(pool.open),
      reclaim_(*this) {}

SegmentLog::~SegmentLog() = default;

Status SegmentLog::allocate_buffers() {
  // A little more, so that images of a quarter or a half of it fit together with their heads.
  const uint64_t wanted = whole_pages(device_.options.append_bytes * 65 / 64);
  const uint64_t bytes = std::min(wanted, segment_bytes_);
  for (size_t i = 0; i < kBuffersCount; ++i) {
    Result<Mapping> memory = Mapping::anonymous(std::max(bytes, kPageBytes));
    if (!memory) return fail(memory.error());
    memory->prefer_huge_pages();
    buffers_.push_back(std::make_unique<AppendBuffer>(*this, std::move(*memory), true));
  }
  return {};
}

void SegmentLog::add_to(RingOptions& options) const {
  for (const Segment& segment : segments_)
    options.files.push_back(segment.file.get());
  for (const auto& buffer : buffers_)
    options.memory.push_back(buffer->memory());
}

uint64_t SegmentLog::image_bytes_max() const {
  // The header, and a footer that names the longest list of tokens.
  constexpr uint64_t kAround = kPageBytes + whole_pages(512 + kTrailerBytes + 65535 * sizeof(Token));
  if (segment_bytes_ <= 4 * kAround) return segment_bytes_ - 2 * kPageBytes - kRecordHeadBytes;
  return segment_bytes_ - kAround - kRecordHeadBytes;
}

bool SegmentLog::fits(const Segment& segment, uint64_t bytes, const ImageIdentity* identity) const {
  const uint64_t footer_bytes = segment.entries.footer_bytes_with(identity);
  return footer_bytes <= kFooterBytesMax && segment.data_end + bytes + footer_bytes <= segment_bytes_;
}

AppendResult SegmentLog::append(const BlockKey& key, std::span<const std::byte> image) {
  if (image.empty() || image.size() > image_bytes_max() || device_.health.mode() != DiskMode::kGood || is_closing_)
    return AppendResult::kRefused;
  const std::optional<ImageIdentity> found = identity_of_image(image, image.size(), key);
  const ImageIdentity* const identity = found ? &*found : nullptr;
  const uint64_t bytes = record_bytes(image.size());
  if (kPageBytes + bytes + SegmentEntries().footer_bytes_with(identity) > segment_bytes_) return AppendResult::kRefused;
  if (!device_.budget.allows(bytes, device_.clock.monotonic_ns())) {
    DiskCounts::add(device_.counts.refused_by_budget);
    return AppendResult::kRefused;
  }
  if (open_ != kNoSegment && !fits(segments_[open_], bytes, identity)) leave_open(false);
  if (open_ == kNoSegment && !open_spare()) return can_prepare() ? AppendResult::kBusy : AppendResult::kRefused;
  AppendBuffer* const buffer = buffer_for(bytes);
  if (buffer == nullptr) return AppendResult::kBusy;
  put(segments_[open_], *buffer, key, image, identity);
  return AppendResult::kDone;
}

bool SegmentLog::append_again(const BlockKey& key, std::span<const std::byte> image) {
  const std::optional<ImageIdentity> found = identity_of_image(image, image.size(), key);
  const ImageIdentity* const identity = found ? &*found : nullptr;
  const uint64_t bytes = record_bytes(image.size());
  if (open_ == kNoSegment || !fits(segments_[open_], bytes, identity) || is_closing_) return false;
  if (!device_.budget.allows(bytes, device_.clock.monotonic_ns())) return false;
  AppendBuffer* const buffer = buffer_for(bytes);
  if (buffer == nullptr) return false;
  put(segments_[open_], *buffer, key, image, identity);
  return true;
}

bool SegmentLog::open_spare() {
  if (spare_ == kNoSegment) return false;
  open_ = std::exchange(spare_, kNoSegment);
  Segment& segment = segments_[open_];
  segment.state = SegmentState::kOpen;
  segment.data_end = kPageBytes;
  segment.entries = {};
  segment.keys.clear();
  return true;
}

void SegmentLog::leave_open(bool can_go_on) {
  flush_buffer();
  Segment& segment = segments_[open_];
  segment.state = SegmentState::kSealing;
  segment.sealed_lsn = next_lsn_ - 1;
  seals_.push_back(std::make_unique<SegmentSeal>(*this, open_, can_go_on));
  open_ = kNoSegment;
}

// Whether a spare will be there some time.
bool SegmentLog::can_prepare() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment& one) {
    return one.state != SegmentState::kBroken && one.state != SegmentState::kOpen;
  });
}

AppendBuffer* SegmentLog::buffer_for(uint64_t bytes) {
  if (filling_ != nullptr && filling_->room() >= bytes) return filling_;
  flush_buffer();
  const uint64_t base = segments_[open_].data_end;
  for (const auto& buffer : buffers_) {
    if (buffer->state() != AppendBuffer::State::kFree || buffer->memory().size() < bytes) continue;
    filling_ = buffer.get();
    filling_->open(open_, base, device_.clock.monotonic_ns());
    return filling_;
  }
  if (bytes <= buffers_.front()->memory().size()) return nullptr;
  // One long image at a time: no more memory than that.
  if (std::any_of(buffers_.begin(), buffers_.end(), [](const auto& one) { return !one->is_kept(); })) return nullptr;
  Result<Mapping> memory = Mapping::anonymous(bytes);
  if (!memory) return nullptr;
  filling_ = buffers_.emplace_back(std::make_unique<AppendBuffer>(*this, std::move(*memory), false)).get();
  filling_->open(open_, base, device_.clock.monotonic_ns());
  return filling_;
}

void SegmentLog::put(Segment& segment, AppendBuffer& buffer, const BlockKey& key, std::span<const std::byte> image,
                     const ImageIdentity* identity) {
  const std::span<std::byte> record = buffer.take(record_bytes(image.size()));
  const std::span<std::byte> body = record.subspan(kRecordHeadBytes);
  std::fill(body.begin() + static_cast<ptrdiff_t>(image.size()), body.end(), std::byte{0});
  const RecordHead head{.segment = segment.number,
                        .generation = segment.generation,
                        .lsn = next_lsn_++,
                        .key = key,
                        .image_bytes = image.size(),
                        .image_checksum = checksum(image)};
  // Not past the caches, from where the device reads it next: that is slower.
  std::copy(image.begin(), image.end(), body.begin());
  write_record_head(head, record.first<kRecordHeadBytes>());
  SegmentEntry entry;
  entry.key = key;
  entry.lsn = head.lsn;
  entry.image_bytes = image.size();
  entry.page = static_cast<uint32_t>(segment.data_end / kPageBytes);
  segment.entries.add(entry, identity);
  segment.keys.push_back(key);
  segment.data_end += record.size();
  device_.index.put(key, {buffer.segment(), entry.page, image.size()});
  if (buffer.room() < kPageBytes || !buffer.is_kept()) flush_buffer();
}

std::span<const std::byte> SegmentLog::find_in_buffers(const RecordPlace& place) const {
  for (const auto& buffer : buffers_) {
    const std::span<const std::byte> found =
        buffer->find(place.segment, place.page * kPageBytes, record_bytes(place.image_bytes));
    if (!found.empty()) return found;
  }
  return {};
}

void SegmentLog::remove(const RecordPlace& place) {
  SegmentEntry* const entry = segments_[place.segment].entries.find_page(place.page);
  if (entry != nullptr) entry->is_removed = true;
}

uint64_t SegmentLog::work(uint64_t now_ns) {
  std::erase_if(buffers_,
                [](const auto& one) { return !one->is_kept() && one->state() == AppendBuffer::State::kFree; });
  uint64_t next_ns = UINT64_MAX;
  if (filling_ != nullptr) {
    const uint64_t age_ns = now_ns - filling_->opened_ns();
    if (age_ns >= device_.options.flush_after_ns) {
      flush_buffer();
    } else {
      next_ns = device_.options.flush_after_ns - age_ns;
    }
  }
  for (const auto& seal : seals_)
    seal->work();
  std::erase_if(seals_, [](const auto& seal) { return seal->is_done(); });
  reclaim_.work();
  return next_ns;
}

void SegmentLog::flush_buffer() {
  if (filling_ == nullptr) return;
  filling_->start_write();
  filling_ = nullptr;
}

void SegmentLog::close() {
  if (open_ != kNoSegment && segments_[open_].data_end > kPageBytes) leave_open(true);
  is_closing_ = true;
}

bool SegmentLog::is_written() const {
  return filling_ == nullptr && std::all_of(buffers_.begin(), buffers_.end(),
                                            [](const auto& one) { return one->state() == AppendBuffer::State::kFree; });
}

bool SegmentLog::is_settled() const {
  return is_written() && seals_.empty() && !reclaim_.is_waiting_for_device();
}

}  // namespace rhizome
