#include "bench/disk_cases.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include <unordered_map>
#include <vector>

#include "bench/disk_files.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "machine/clock.h"
#include "tier/disk/record.h"
#include "tier/disk/segment_header.h"
#include "tier/disk/segment_reader.h"

namespace rhizome::bench {
namespace {

constexpr size_t kAtOnce = 8;
constexpr size_t kAskedAtOnce = 32;  // of the tier, which bounds by itself what the device works on
constexpr uint64_t kAppendBytes = 4 * kMiB;
constexpr uint64_t kSourceBytes = 64 * kMiB;  // what is written is in memory and not in a processor's own cache
constexpr size_t kPrefetchBytes = 768;        // the sweep is no slower than it need be

double elapsed_ns(const std::function<void()>& run) {
  const uint64_t before_ns = monotonic_now_ns();
  run();
  return static_cast<double>(monotonic_now_ns() - before_ns);
}

double cpu_ns(const std::function<void()>& run) {
  const uint64_t before_ns = thread_cpu_now_ns();
  run();
  return static_cast<double>(thread_cpu_now_ns() - before_ns);
}

std::string mb_per_s(uint64_t bytes, double ns) {
  return fixed(static_cast<double>(bytes) / ns * 1000, 0) + " MB/s";
}

Result<std::unique_ptr<DiskTier>> open_tier(const DiskStage& stage, uint64_t bytes, std::span<std::byte> memory) {
  return DiskTier::open({.directory = stage.folder + "/tier", .bytes_max = bytes, .caller_memory = {memory}});
}

// Images [first, end), each of which must be taken.
Status write_images(DiskTier& tier, DiskImages& images, uint32_t first, uint32_t end) {
  std::vector<TierCompletion> done;
  for (uint32_t number = first; number < end; ++number) {
    const TierRequest request{
        .tag = number, .operation = TierOperation::kWrite, .key = images.key(number), .from = images.image(number)};
    if (const Status run = run_requests(tier, std::span(&request, 1), 1, done); !run) return run;
    if (done.back().outcome != TierOutcome::kDone) return fail(Code::kUnavailable, "the disk tier refused an image");
  }
  return {};
}

std::vector<uint32_t> shuffled(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> numbers(count);
  for (uint32_t i = 0; i < count; ++i)
    numbers[i] = i;
  std::mt19937_64 random(seed);
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

void tell_how(DiskStage& stage, const char* title, const char* left, const char* right, bool is_direct,
              std::string_view ring) {
  stage.report.section(title,
                       std::string(is_direct ? "past the kernel's cache"
                                             : "this file system has no O_DIRECT: the "
                                               "kernel's cache is measured, too") +
                           ", by " + std::string(ring),
                       left, right);
}

// Opens the tier and closes it; how many blocks could be put into an index.
uint64_t recover_all(const DiskStage& stage, uint64_t bytes) {
  uint64_t count = 0;
  Result<std::unique_ptr<DiskTier>> tier = open_tier(stage, bytes, {});
  if (!tier) return 0;
  for (const Digest& keyspace : (*tier)->recovered_keyspaces())
    (*tier)->for_each_recovered(keyspace, [&](const RecoveredBlock&) { ++count; });
  return count;
}

// Where images are in the files of a tier.
struct RecordReads {
  std::vector<std::string> paths;
  std::vector<RingOperation> reads;  // by the image's number
};

Result<RecordReads> find_records(const std::string& directory, DiskImages& images, uint32_t count) {
  Result<SegmentReader> reader = SegmentReader::create();
  if (!reader) return fail(reader.error());
  std::unordered_map<std::string, uint32_t> numbers;
  for (uint32_t number = 0; number < count; ++number)
    numbers.emplace(images.key(number).name(), number);
  RecordReads records;
  records.reads.resize(count);
  size_t found = 0;
  for (uint32_t segment = 0;; ++segment) {
    const std::string path = directory + "/" + segment_name(segment);
    Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kReadDirect);
    if (!file) break;
    const Result<SegmentContents> contents = reader->read(**file, segment);
    if (!contents) return fail(contents.error());
    for (const SegmentEntry& entry : contents->entries.entries()) {
      const uint32_t number = numbers.at(entry.key.name());
      records.reads[number] = {
          .tag = number, .action = RingAction::kRead, .file = segment, .offset = entry.page * kPageBytes};
      ++found;
    }
    records.paths.push_back(path);
  }
  if (found != count) return fail(Code::kDataLoss, "not all images are in the files");
  return records;
}

// Some of them, one after another: what is read is what was written.
Status compare_images(DiskStage& stage, DiskTier& tier, DiskImages& images, uint32_t count, std::span<std::byte> into) {
  for (uint32_t number = 0; number < count; number += 7) {
    const TierRequest request{.tag = 1, .operation = TierOperation::kRead, .key = images.key(number), .into = into};
    std::vector<TierCompletion> done;
    if (const Status run = run_requests(tier, std::span(&request, 1), 1, done); !run) return run;
    if (!images.is_right(number, into.subspan(done[0].offset, done[0].bytes)))
      stage.report.failure("an image came back changed");
  }
  return {};
}

// The same image again and again.
void fill_with_images(DiskImages& images, std::span<std::byte> memory) {
  const std::span<const std::byte> image = images.image(0);
  for (uint64_t at = 0; at + image.size() <= memory.size(); at += image.size())
    std::copy(image.begin(), image.end(), memory.subspan(at).begin());
}

}  // namespace

Status run_disk_reads(DiskStage& stage) {
  const uint32_t count = stage.quick ? 48 : 256;
  const uint32_t rounds = stage.quick ? 5 : 15;
  stage.progress.begin("reads", rounds);
  const uint64_t room = record_bytes(kMiB);
  // Each image goes where no other does, as into the slots of a cache: not again and again into the same caches' lines.
  Result<Mapping> memory = Mapping::anonymous(count * room);
  if (!memory) return fail(memory.error());
  memory->prefer_huge_pages();
  std::fill(memory->bytes().begin(), memory->bytes().end(), std::byte{1});  // it is there before it is measured
  Result<std::unique_ptr<DiskTier>> tier = open_tier(stage, (count + 64) * kMiB * 5 / 4, memory->bytes());
  if (!tier) return fail(tier.error());
  DiskImages images(kMiB);
  if (const Status done = write_images(**tier, images, 0, count); !done) return done;
  if (const Status done = (*tier)->flush(); !done) return done;
  // The tier's own files, and in them the very same reads: where a file lies on a device makes a difference, too.
  Result<RecordReads> records = find_records(stage.folder + "/tier", images, count);
  if (!records) return fail(records.error());
  Result<PlainFile> plain = PlainFile::open(records->paths, memory->bytes());
  if (!plain) return fail(plain.error());
  ReadPlaces places(memory->bytes(), room);
  std::vector<double> plain_ns;
  std::vector<double> tier_ns;
  std::vector<double> ratios;
  Status failed;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::vector<uint32_t> order = shuffled(count, round);
    std::vector<RingOperation> reads;
    std::vector<TierRequest> requests;
    for (const uint32_t number : order) {
      // Which memory it is read into is known when it is begun.
      reads.push_back(records->reads[number]);
      reads.back().bytes = memory->bytes().first(room);
      requests.push_back({.tag = number, .operation = TierOperation::kRead, .key = images.key(number)});
    }
    std::vector<TierCompletion> done;
    const auto run_plain = [&] {
      if (const Status run = plain->run(reads, kAtOnce, &places); !run) failed = run;
    };
    const auto run_tier = [&] {
      if (const Status run = run_requests(**tier, requests, kAskedAtOnce, done, &places); !run) failed = run;
    };
    // Who goes first changes.
    double of_plain = round % 2 == 0 ? elapsed_ns(run_plain) : 0;
    const double of_tier = elapsed_ns(run_tier);
    if (round % 2 != 0) of_plain = elapsed_ns(run_plain);
    if (!failed) return failed;
    for (const TierCompletion& one : done)
      if (one.outcome != TierOutcome::kDone || one.bytes != kMiB) stage.report.failure("a read that is not done");
    plain_ns.push_back(of_plain);
    tier_ns.push_back(of_tier);
    ratios.push_back(of_plain / of_tier);
    stage.progress.step();
  }
  if (const Status same = compare_images(stage, **tier, images, count, memory->bytes().first(room)); !same) return same;
  tell_how(stage, "reads of 1 MiB, 8 at once", "plain reads", "disk tier", plain->is_direct(),
           ring_kind_name((*tier)->ring_kind()));
  stage.report.row("random order, verified", mb_per_s(count * kMiB, median(plain_ns)),
                   mb_per_s(count * kMiB, median(tier_ns)));
  stage.report.figure("ratio_read_1mib_vs_raw", median(ratios));
  stage.report.figure("disk_read_mb_per_s", static_cast<double>(count * kMiB) / median(tier_ns) * 1000);
  stage.report.answered("reads " + std::to_string(count));
  return {};
}

Status run_disk_writes(DiskStage& stage) {
  const uint32_t count = stage.quick ? 48 : 768;  // of a round: three segments and three footers
  const uint32_t rounds = stage.quick ? 5 : 7;
  const uint64_t bytes = (stage.quick ? 128 : 4096) * kMiB;  // segments of 256 MiB
  stage.progress.begin("writes", rounds + 1);
  Result<Mapping> memory = Mapping::anonymous(kSourceBytes);
  if (!memory) return fail(memory.error());
  memory->prefer_huge_pages();
  Result<PlainFile> plain = PlainFile::create(stage.folder + "/plain", bytes, memory->bytes());
  if (!plain) return fail(plain.error());
  Result<std::unique_ptr<DiskTier>> tier = open_tier(stage, bytes, {});
  if (!tier) return fail(tier.error());
  DiskImages images(kMiB);
  // One image under many keys: what is measured is not how images are made. Many are taken at once, as in a demotion.
  fill_with_images(images, memory->bytes());
  uint32_t number = 0;
  Status failed;
  const auto run_tier = [&](uint32_t writes) {
    std::vector<TierRequest> requests;
    for (uint32_t i = 0; i < writes; ++i, ++number) {
      const Token token = number;
      requests.push_back({.tag = number,
                          .operation = TierOperation::kWrite,
                          .key = next_key(images.key(0), std::span(&token, 1)),
                          .from = memory->bytes().subspan(number * kMiB % kSourceBytes, kMiB)});
    }
    std::vector<TierCompletion> done;
    if (const Status run = run_requests(**tier, requests, kAskedAtOnce, done); !run) failed = run;
    if (const Status run = (*tier)->flush(); !run) failed = run;
    for (const TierCompletion& one : done)
      if (one.outcome != TierOutcome::kDone) stage.report.failure("a write that is not done");
  };
  uint64_t at = 0;
  const auto run_plain = [&] {
    std::vector<RingOperation> writes;
    for (uint64_t left = count * kMiB; left > 0; left -= kAppendBytes, at += kAppendBytes) {
      writes.push_back({.tag = at,
                        .action = RingAction::kWrite,
                        .file = 0,
                        .offset = at % bytes,
                        .bytes = memory->bytes().subspan(at % kSourceBytes, kAppendBytes)});
    }
    if (const Status run = plain->run(writes, 2); !run) failed = run;
    if (const Status run = plain->file().sync_data(); !run) failed = run;
  };
  // The first lap goes into extents that were never written: slower, and over once.
  run_tier(static_cast<uint32_t>(bytes / kMiB));
  stage.progress.step();
  std::vector<double> plain_ns;
  std::vector<double> tier_ns;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < rounds && failed; ++round) {
    double of_plain = round % 2 == 0 ? elapsed_ns(run_plain) : 0;
    const double of_tier = elapsed_ns([&] { run_tier(count); });
    if (round % 2 != 0) of_plain = elapsed_ns(run_plain);
    plain_ns.push_back(of_plain);
    tier_ns.push_back(of_tier);
    ratios.push_back(of_plain / of_tier);
    stage.progress.step();
  }
  if (!failed) return failed;
  tell_how(stage, "writes of 1 MiB, synced at the end of each round", "plain file", "disk tier", plain->is_direct(),
           ring_kind_name((*tier)->ring_kind()));
  stage.report.row("a log that goes round, 4 MiB appends", mb_per_s(count * kMiB, median(plain_ns)),
                   mb_per_s(count * kMiB, median(tier_ns)));
  stage.report.figure("ratio_write_vs_raw", median(ratios));
  stage.report.figure("disk_write_mb_per_s", static_cast<double>(count * kMiB) / median(tier_ns) * 1000);
  stage.report.answered("writes " + std::to_string(number));
  return {};
}

Status run_disk_recovery(DiskStage& stage) {
  const uint64_t bytes = (stage.quick ? 128 : 1024) * kMiB;
  const uint32_t rounds = stage.quick ? 15 : 51;
  stage.progress.begin("recovery", rounds);
  DiskImages images(kMiB);
  uint64_t segment_bytes = 0;
  uint64_t images_count = 0;
  {
    Result<std::unique_ptr<DiskTier>> tier = open_tier(stage, bytes, {});
    if (!tier) return fail(tier.error());
    segment_bytes = (*tier)->disk_usage().segment_bytes;
    const uint32_t count = static_cast<uint32_t>(bytes / kMiB / 2);
    if (const Status done = write_images(**tier, images, 0, count); !done) return done;
  }
  Result<SegmentReader> reader = SegmentReader::create();
  if (!reader) return fail(reader.error());
  const std::string path = stage.folder + "/tier/" + segment_name(0);
  uint64_t footer_bytes = 0;
  std::vector<double> ratios;
  std::vector<double> recovery_ns;
  std::vector<double> footer_ns;
  Status failed;
  for (uint32_t round = 0; round < rounds; ++round) {
    const auto recover = [&] {
      Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kReadWriteDirect);
      const Result<SegmentContents> contents =
          file ? reader->read(**file, 0) : Result<SegmentContents>(tl::unexpected(file.error()));
      if (!contents || contents->condition != SegmentCondition::kSealed) {
        failed = fail(Code::kDataLoss, "the segment is not sealed");
        return;
      }
      footer_bytes = contents->entries.footer_bytes();
      std::unordered_map<std::string, uint32_t> index;
      for (const SegmentEntry& entry : contents->entries.entries())
        index.emplace(entry.key.name(), entry.page);
      images_count = index.size();
    };
    if (round == 0) recover();
    if (!failed) return failed;
    const auto read_footer = [&] {
      Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kReadWriteDirect);
      Result<std::span<const std::byte>> read =
          file ? reader->read_pages(**file, segment_bytes - footer_bytes, footer_bytes)
               : Result<std::span<const std::byte>>(tl::unexpected(file.error()));
      if (!read || read->size() != footer_bytes) failed = fail(Code::kDataLoss, "the footer cannot be read");
    };
    double of_footer = round % 2 == 0 ? elapsed_ns(read_footer) : 0;
    recovery_ns.push_back(elapsed_ns(recover));
    if (round % 2 != 0) of_footer = elapsed_ns(read_footer);
    if (!failed) return failed;
    footer_ns.push_back(of_footer);
    ratios.push_back(recovery_ns.back() / of_footer);
    stage.progress.step();
  }
  uint64_t chained = 0;
  const double open_ns = elapsed_ns([&] { chained = recover_all(stage, bytes); });
  if (chained != bytes / kMiB / 2) stage.report.failure("not every block was recovered");
  stage.report.section("recovery", "one sealed segment of 1 MiB images with 64 tokens", "footer read", "recovered");
  stage.report.row(std::to_string(images_count) + " images in " + std::to_string(segment_bytes / kMiB) + " MiB",
                   fixed(median(footer_ns) / 1000, 0) + " us", fixed(median(recovery_ns) / 1000, 0) + " us");
  stage.report.row(std::to_string(chained) + " blocks: opened, keys and chains checked, closed", "",
                   milliseconds(open_ns / 1e9));
  stage.report.figure("ratio_recovery_vs_footer_read", median(ratios));
  stage.report.figure("disk_open_ms", open_ns / 1e6);
  stage.report.answered("recovery " + std::to_string(images_count) + " " + std::to_string(chained));
  return {};
}

Status run_disk_verify(DiskStage& stage) {
  const uint32_t rounds = stage.quick ? 15 : 101;
  constexpr uint32_t kRecords = 64;  // far more than the caches hold
  stage.progress.begin("verify", rounds);
  DiskImages images(kMiB);
  const uint64_t bytes = record_bytes(kMiB);
  Result<Mapping> memory = Mapping::anonymous(kRecords * bytes, Mapping::Pages::kPrefault);
  if (!memory) return fail(memory.error());
  // As the tier leaves them.
  Result<std::unique_ptr<DiskTier>> tier = open_tier(stage, 2 * kRecords * bytes, memory->bytes());
  if (!tier) return fail(tier.error());
  if (const Status done = write_images(**tier, images, 0, kRecords); !done) return done;
  if (const Status done = (*tier)->flush(); !done) return done;
  std::vector<RecordHead> expected;
  for (uint32_t i = 0; i < kRecords; ++i) {
    const std::span<std::byte> into = memory->bytes().subspan(i * bytes, bytes);
    const TierRequest request{.tag = i, .operation = TierOperation::kRead, .key = images.key(i), .into = into};
    std::vector<TierCompletion> done;
    if (const Status run = run_requests(**tier, std::span(&request, 1), 1, done); !run) return run;
    const std::optional<RecordHead> head = parse_record_head(into);
    if (done[0].offset != kRecordHeadBytes || !head) return fail(Code::kDataLoss, "a record was not read in place");
    expected.push_back(*head);
  }
  uint64_t sum = 0;
  const auto sweep = [&] {
    for (uint32_t i = 0; i < kRecords; ++i) {
      const std::byte* at = memory->bytes().data() + i * bytes;
      uint64_t sums[8] = {};
      for (uint64_t word = 0; word < bytes / 64; ++word, at += 64) {
        uint64_t words[8];
        __builtin_prefetch(at + kPrefetchBytes);
        std::memcpy(words, at, sizeof words);
        for (int k = 0; k < 8; ++k)
          sums[k] += words[k];
      }
      for (const uint64_t one : sums)
        sum += one;
    }
  };
  bool all_right = true;
  const auto verify = [&] {
    for (uint32_t i = 0; i < kRecords; ++i)
      all_right = all_right && !check_record(memory->bytes().subspan(i * bytes, bytes), expected[i]);
  };
  std::vector<double> ratios;
  std::vector<double> sweep_ns;
  std::vector<double> verify_ns;
  for (uint32_t round = 0; round < rounds; ++round) {
    sweep_ns.push_back(cpu_ns(sweep));
    verify_ns.push_back(cpu_ns(verify));
    ratios.push_back(verify_ns.back() / sweep_ns.back());
    stage.progress.step();
  }
  if (!all_right) stage.report.failure("a record that is right did not verify");
  stage.report.section("verify", "records of 1 MiB in memory, one core", "one sweep", "verified");
  stage.report.row("64 records", mb_per_s(kRecords * bytes, median(sweep_ns)),
                   mb_per_s(kRecords * bytes, median(verify_ns)));
  stage.report.figure("ratio_verify_vs_read_sweep", median(ratios));
  stage.report.answered("verify " + std::to_string(sum / rounds));
  return {};
}

}  // namespace rhizome::bench
