#include "tier/disk/segment_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "telemetry/log.h"
#include "tier/disk/segment_reader.h"

namespace rhizome {
namespace {

constexpr uint64_t kSegmentsWanted = 16;
constexpr uint64_t kSegmentsLeast = 4;
// All are open at once, and a process may often have no more than 1024 files open, its sockets among them.
constexpr uint64_t kSegmentsMost = 512;
constexpr uint64_t kSegmentBytesEnough = 32 << 20;
constexpr uint64_t kSegmentBytesLeast = 16 << 10;
// Generations that a segment with an unreadable header may have had.
constexpr uint64_t kGenerationsSkipped = 1 << 20;

struct FoundSegment {
  Segment segment;
  SegmentContents contents;
  bool is_new = false;
};

uint64_t last_lsn(const SegmentContents& contents) {
  uint64_t last = 0;
  for (const SegmentEntry& entry : contents.entries.entries())
    last = std::max(last, entry.lsn);
  return last;
}

class PoolOpening {
 public:
  explicit PoolOpening(DiskDevice& device) : device_(device), directory_(device.options.directory) {}

  Result<SegmentPool> open() {
    if (const Status done = lock(); !done) return fail(done.error());
    if (const Status done = find(); !done) return fail(done.error());
    choose_size();
    remove_surplus();
    if (const Status done = create_missing(); !done) return give_up(done.error());
    if (const Status done = allocate(); !done) return give_up(done.error());
    if (const Status done = device_.files.sync_directory(directory_); !done) return give_up(done.error());
    seal_unsealed();
    go_on();
    fill_index();
    return std::move(pool_);
  }

 private:
  std::string path_of(uint32_t number) const { return directory_ + "/" + segment_name(number); }

  Status lock() {
    if (const Status made = device_.files.make_directory(directory_); !made) return made;
    Result<std::unique_ptr<DirectoryLock>> lock = device_.files.lock_directory(directory_);
    if (!lock) return fail(lock.error());
    device_.lock = std::move(*lock);
    return {};
  }

  Status find() {
    Result<std::vector<std::string>> names = device_.files.list(directory_);
    if (!names) return fail(names.error());
    Result<SegmentReader> reader = SegmentReader::create();
    if (!reader) return fail(reader.error());
    for (const std::string& name : *names) {
      const std::optional<uint32_t> number = segment_number(name);
      if (!number) continue;
      Result<std::unique_ptr<File>> file = device_.files.open(path_of(*number), OpenMode::kReadWriteDirect);
      if (!file) {
        const Code code = file.error().code;
        if (code != Code::kFailedPrecondition && code != Code::kPermissionDenied) return fail(file.error());
        log_warning("{}: it has the name of a segment of the disk tier and is left alone: {}", path_of(*number),
                    file.error().reason);
        leave_alone(*number);
        continue;
      }
      FoundSegment found;
      found.segment.number = *number;
      found.segment.file = std::move(*file);
      Result<SegmentContents> contents = reader->read(*found.segment.file, *number);
      if (!contents) {
        log_warning("{}: a segment of the disk tier cannot be read and is not used: {}", path_of(*number),
                    contents.error().reason);
        device_.count_read_error();
        found.segment.state = SegmentState::kBroken;
      } else {
        found.contents = std::move(*contents);
      }
      take(std::move(found));
    }
    return {};
  }

  void leave_alone(uint32_t number) {
    ++pool_.left_alone;
    numbers_taken_.push_back(number);
  }

  void take(FoundSegment found) {
    const SegmentHeader& header = found.contents.header;
    if (found.contents.condition == SegmentCondition::kOtherVersion) {
      log_warning("{}: a segment of version {} is left alone: this program writes version {}",
                  path_of(found.segment.number), header.version, kDiskFormatVersion);
      return leave_alone(found.segment.number);
    }
    if (found.contents.condition == SegmentCondition::kDamaged) {
      has_unreadable_ = true;
      log_warning("{}: the header of a segment of the disk tier cannot be read or is that of another one: it is empty",
                  path_of(found.segment.number));
    }
    pool_.next_generation = std::max(pool_.next_generation, header.generation + 1);
    pool_.next_lsn = std::max(pool_.next_lsn, last_lsn(found.contents) + 1);
    found_.push_back(std::move(found));
  }

  // What is there keeps its size, unless so few would fit that nothing could be reclaimed, or too many.
  void choose_size() {
    const uint64_t bytes_max = device_.options.bytes_max;
    pool_.segment_bytes = choose_segment_bytes(device_.options);
    for (const FoundSegment& found : found_) {
      const uint64_t bytes = found.contents.header.segment_bytes;
      if (found.contents.entries.entries().empty()) continue;
      if (bytes_max / bytes < kSegmentsLeast || bytes_max / bytes > kSegmentsMost) continue;
      pool_.segment_bytes = bytes;
      break;
    }
    count_ = bytes_max / pool_.segment_bytes;
    for (FoundSegment& found : found_) {
      if (found.contents.header.segment_bytes != pool_.segment_bytes) found.contents = {};
    }
    if (has_unreadable_) pool_.next_generation += kGenerationsSkipped;
  }

  void remove_surplus() {
    std::sort(found_.begin(), found_.end(), [](const FoundSegment& a, const FoundSegment& b) {
      return std::pair(last_lsn(a.contents), b.segment.number) > std::pair(last_lsn(b.contents), a.segment.number);
    });
    while (found_.size() > count_) {
      const std::string path = path_of(found_.back().segment.number);
      found_.pop_back();
      if (const Status removed = device_.files.remove(path); !removed)
        log_warning("{}: a segment that is not needed cannot be removed: {}", path, removed.error().reason);
    }
  }

  Status create_missing() {
    for (const FoundSegment& found : found_)
      numbers_taken_.push_back(found.segment.number);
    for (uint32_t number = 0; found_.size() < count_; ++number) {
      if (std::find(numbers_taken_.begin(), numbers_taken_.end(), number) != numbers_taken_.end()) continue;
      Result<std::unique_ptr<File>> file = device_.files.open(path_of(number), OpenMode::kCreateDirect);
      if (!file) return fail(file.error());
      FoundSegment& made = found_.emplace_back();
      made.is_new = true;
      made.segment.number = number;
      made.segment.file = std::move(*file);
    }
    return {};
  }

  Status allocate() {
    uint64_t missing_bytes = 0;
    for (FoundSegment& found : found_) {
      if (found.segment.state == SegmentState::kBroken) continue;
      File& file = *found.segment.file;
      const Result<uint64_t> bytes = file.size();
      if (!bytes) return fail(bytes.error());
      if (*bytes > pool_.segment_bytes) {
        if (const Status cut = file.truncate(pool_.segment_bytes); !cut) return cut;
      }
      missing_bytes += pool_.segment_bytes - std::min(*bytes, pool_.segment_bytes);
    }
    // Else the room that there is would be taken first, from whoever else writes there meanwhile.
    const Result<uint64_t> room_bytes = device_.files.room_bytes(directory_);
    if (room_bytes && *room_bytes < missing_bytes)
      return fail(Code::kResourceExhausted, "there is less room than the blocks may take");
    for (FoundSegment& found : found_) {
      if (found.segment.state == SegmentState::kBroken) continue;
      if (const Status done = found.segment.file->allocate(pool_.segment_bytes); !done) return done;
    }
    return {};
  }

  // What this call has made is taken away again; what was there stays.
  tl::unexpected<Error> give_up(const Error& error) {
    for (const FoundSegment& found : found_) {
      if (found.is_new) (void)device_.files.remove(path_of(found.segment.number));
    }
    device_.lock.reset();
    return fail(error);
  }

  // A segment that was open when the process ended is not written on: what lies behind its last record may be of this
  // generation as well.
  void seal_unsealed() {
    for (FoundSegment& found : found_) {
      const SegmentContents& contents = found.contents;
      if (contents.condition != SegmentCondition::kUnsealed) continue;
      const uint64_t footer_bytes = contents.entries.footer_bytes();
      if (contents.data_end + footer_bytes > pool_.segment_bytes) continue;
      Result<Mapping> memory = Mapping::anonymous(footer_bytes);
      if (!memory) continue;
      File& file = *found.segment.file;
      contents.entries.write_footer(found.segment.number, contents.header.generation, contents.data_end, false,
                                    memory->bytes());
      if (!file.sync_data()) continue;
      const Result<size_t> put = file.write_at(pool_.segment_bytes - footer_bytes, memory->bytes());
      device_.count_written(footer_bytes);
      // Without a footer it is looked through again the next time.
      if (!put || *put != footer_bytes || !file.sync_data()) device_.count_write_error();
    }
  }

  // The last segment of a process that ended as it should is written on. Its footer must be gone before: it would hide
  // what is written from the next start.
  void go_on() {
    const auto last = std::max_element(found_.begin(), found_.end(), [](const FoundSegment& a, const FoundSegment& b) {
      return last_lsn(a.contents) < last_lsn(b.contents);
    });
    if (last == found_.end() || !last->contents.can_go_on) return;
    Result<Mapping> memory = Mapping::anonymous(kPageBytes);
    if (!memory) return;
    File& file = *last->segment.file;
    const Result<size_t> put = file.write_at(pool_.segment_bytes - kPageBytes, memory->bytes());
    device_.count_written(kPageBytes);
    if (!put || *put != kPageBytes || !file.sync_data()) return device_.count_write_error();
    pool_.open = static_cast<uint32_t>(last - found_.begin());
  }

  void fill_index() {
    struct Found {
      uint64_t lsn;
      uint32_t segment;
      uint32_t entry;
    };
    std::vector<Found> all;
    for (uint32_t i = 0; i < found_.size(); ++i) {
      const std::vector<SegmentEntry>& entries = found_[i].contents.entries.entries();
      for (uint32_t k = 0; k < entries.size(); ++k)
        all.push_back({entries[k].lsn, i, k});
    }
    std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.lsn < b.lsn; });
    for (const Found& one : all) {
      const SegmentEntry& entry = found_[one.segment].contents.entries.entries()[one.entry];
      device_.index.put(entry.key, {one.segment, entry.page, entry.image_bytes});
    }
    pool_.recovered_images = device_.index.images();
    for (FoundSegment& found : found_)
      keep(std::move(found));
  }

  void keep(FoundSegment found) {
    Segment& segment = found.segment;
    const std::vector<SegmentEntry>& entries = found.contents.entries.entries();
    segment.generation = found.contents.header.generation;
    if (segment.state != SegmentState::kBroken && !entries.empty()) {
      segment.state = SegmentState::kSealed;
      segment.data_end = found.contents.data_end;
      segment.sealed_lsn = last_lsn(found.contents);
      for (const SegmentEntry& entry : entries)
        segment.keys.push_back(entry.key);
      if (pool_.open == pool_.segments.size()) {
        segment.state = SegmentState::kOpen;
        segment.entries = found.contents.entries;
      }
      device_.recovered.add(static_cast<uint32_t>(pool_.segments.size()), found.contents.entries);
    }
    pool_.segments.push_back(std::move(segment));
  }

  DiskDevice& device_;
  const std::string directory_;
  SegmentPool pool_;
  uint64_t count_ = 0;
  bool has_unreadable_ = false;
  std::vector<FoundSegment> found_;
  std::vector<uint32_t> numbers_taken_;
};

}  // namespace

uint64_t choose_segment_bytes(const DiskTierOptions& options) {
  const uint64_t most = options.bytes_max / kSegmentsLeast;
  uint64_t bytes = options.bytes_max / kSegmentsWanted;
  bytes = std::max(bytes, std::min(most, kSegmentBytesEnough));
  bytes = std::min({bytes, most, options.segment_bytes}) / kPageBytes * kPageBytes;
  return std::max(bytes, whole_pages(options.bytes_max / kSegmentsMost));
}

Result<SegmentPool> open_segment_pool(DiskDevice& device) {
  if (choose_segment_bytes(device.options) < kSegmentBytesLeast)
    return fail(Code::kInvalidArgument, "the disk tier needs 64 KiB at least");
  return PoolOpening(device).open();
}

}  // namespace rhizome
