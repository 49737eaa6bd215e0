// An index and readers in other processes: what a reader holds is what it asked for, whatever the owner evicts.
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "index/index.h"
#include "index/index_reader.h"
#include "index/remote_readers_fixture.h"
#include "machine/descriptor.h"
#include "machine/host.h"
#include "machine/mapping.h"
#include "machine/process.h"
#include "machine/random.h"

namespace rhizome {
namespace {

constexpr uint32_t kLocationsMax = 2600;
constexpr uint32_t kReaders = 2;

struct Workload {
  uint32_t locations;
  uint32_t trunks;
  uint32_t trunk_blocks;
  uint32_t branches;
  uint32_t branch_blocks;
  uint32_t evicted_at_once;
  uint64_t look_ups;
};

// Long paths with splits; much leaves at once.
constexpr Workload kForest = {2600, 5, 640, 40, 24, 400, 40'000};
// What is looked up is what leaves, a block at a time.
constexpr Workload kHedge = {300, 3, 4, 25, 8, 1, 200'000};
// Runs so long that a reader is late to say what it uses, and few, so that just those leave.
constexpr Workload kPoles = {2000, 1, 0, 4, 640, 640, 100'000};

enum class Kind : uint32_t { kExact, kFingerprint };

// What the processes share beside the index. Zeros at first.
struct Shared {
  Workload workload;
  Kind kind;
  int index_descriptor;  // the owner's
  uint64_t index_bytes;
  uint64_t seed;
  std::array<ReaderWords, kReaders> words;
  std::array<std::atomic<uint64_t>, kLocationsMax> paths;  // what is stored there
  std::atomic<uint64_t> root;
  std::atomic<uint32_t> stop;
  struct Counts {
    std::atomic<uint64_t> look_ups;
    std::atomic<uint64_t> blocks;
    std::atomic<uint64_t> wrong;
    std::atomic<uint64_t> retries;
  };
  std::array<Counts, kReaders> counts;
};

// One token a block: a trunk that many prompts share, then a branch of their own.
struct TestPrompt {
  std::vector<Token> tokens;
  std::vector<uint64_t> paths;

  TestPrompt(const Workload& workload, uint32_t trunk, uint32_t branch) {
    uint64_t path = 1;
    // Branches of a trunk leave it at one of a few places, so that runs are split and ends are shared.
    const uint32_t leaves_at = workload.trunk_blocks - workload.trunk_blocks / 6 * (branch % 4);
    for (uint32_t i = 0; i < workload.trunk_blocks + workload.branch_blocks; ++i) {
      const bool common = i < leaves_at;
      tokens.push_back(common ? trunk * 1000 + i : 100'000 + trunk * 1000 + branch);
      path = (path + tokens.back() + 1) * 0x9e3779b97f4a7c15u;
      path ^= path >> 29;
      paths.push_back(path);
    }
  }
};

std::vector<TestPrompt> all_prompts(const Workload& workload) {
  std::vector<TestPrompt> prompts;
  for (uint32_t trunk = 0; trunk < workload.trunks; ++trunk) {
    for (uint32_t branch = 0; branch < workload.branches; ++branch)
      prompts.emplace_back(workload, trunk, branch);
  }
  return prompts;
}

// The fence between the slot and the second look matters when the slot's store is late: it is when the stores before
// it, the locations of the deepest run, go to lines that are in no cache.
void make_cold(std::span<const Location> memory) {
#if defined(__x86_64__)
  for (size_t i = 0; i < memory.size(); i += 64 / sizeof(Location))
    __builtin_ia32_clflush(&memory[i]);
  __builtin_ia32_mfence();
#else
  static_cast<void>(memory);
#endif
}

template <class Reader>
void read_until_stopped(std::span<const std::byte> memory, Shared& shared, uint32_t number) {
  const Workload& workload = shared.workload;
  const auto reader = *Reader::open(memory);
  std::mt19937_64 random(shared.seed + number);
  const std::vector<TestPrompt> prompts = all_prompts(workload);
  std::vector<Location> found(workload.trunk_blocks + workload.branch_blocks);
  Shared::Counts& counts = shared.counts[number];
  while (shared.stop.load(std::memory_order_relaxed) == 0) {
    const TestPrompt& prompt = prompts[random() % prompts.size()];
    HazardSlot& slot = shared.words[number].slots[random() % 8];
    const uint64_t packed = shared.root.load(std::memory_order_acquire);
    const SharedRoot root{static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
    make_cold(found);
    const RemoteMatch match = reader.lookup(root, prompt.tokens, found, slot);
    // From the end: what is nearest to the hazard slot is what goes first.
    for (uint32_t i = match.blocks; i-- > 0;) {
      const bool right =
          found[i] < kLocationsMax && shared.paths[found[i]].load(std::memory_order_relaxed) == prompt.paths[i];
      if (!right) counts.wrong.fetch_add(1, std::memory_order_relaxed);
    }
    Reader::release(slot);
    counts.blocks.fetch_add(match.blocks, std::memory_order_relaxed);
    counts.retries.fetch_add(match.retries, std::memory_order_relaxed);
    counts.look_ups.fetch_add(1, std::memory_order_relaxed);
  }
}

class AllReaders final : public RemoteReaders {
 public:
  explicit AllReaders(Shared& shared) {
    for (ReaderWords& words : shared.words)
      readers_.emplace_back(words);
  }
  void collect(std::vector<RunId>& in_use) override {
    for (TestReaders& reader : readers_)
      reader.collect(in_use);
  }
  void take_touches(const std::function<void(RunId, uint32_t)>& touched) override {
    for (TestReaders& reader : readers_)
      reader.take_touches(touched);
  }

 private:
  std::vector<TestReaders> readers_;
};

template <class AnyIndex>
class Owner {
 public:
  Owner(AnyIndex& index, const Workload& workload, Shared& shared)
      : index_(index), workload_(workload), shared_(shared), prompts_(all_prompts(workload)) {
    for (Location i = 0; i < workload.locations; ++i)
      free_.push_back(i);
    const char name = 'a';
    root_ = *index_.open(std::as_bytes(std::span(&name, 1)));
    publish_root();
  }

  void step(std::mt19937_64& random) {
    if (random() % 512 == 0) forget_something(random);
    const TestPrompt& prompt = prompts_[random() % prompts_.size()];
    std::vector<Location> found(prompt.tokens.size());
    Match match = index_.lookup(root_, prompt.tokens, found);
    const size_t missing = prompt.tokens.size() - match.blocks;
    std::vector<Location> taken;
    while (taken.size() < missing && take(taken, match.blocks, prompt)) {
    }
    if (taken.size() == missing && missing > 0) {
      std::vector<Location> canonical(missing);
      Result<Inserted> inserted = index_.insert(root_, match.handle, prompt.tokens, match.blocks, taken, canonical);
      if (inserted) {
        match.handle = std::move(inserted->handle);
        taken.clear();
      }
    }
    give_back(taken);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    publish_root();
  }

  // What no reader holds any more is there again.
  void expect_all_back() {
    EXPECT_TRUE(index_.clear(root_));
    std::vector<Location> out(64);
    while (const size_t count = index_.reap(out))
      give_back(std::span(out).first(count));
    while (const size_t count = index_.evict(out))
      give_back(std::span(out).first(count));
    // A root follows its last run into limbo, and leaves it an epoch later.
    for (int calls = 0; calls < 8 && index_.usage().runs > 1; ++calls)
      give_back(std::span(out).first(index_.evict(out)));
    EXPECT_EQ(free_.size(), workload_.locations);
    EXPECT_EQ(index_.usage().withheld_blocks, 0u);
    EXPECT_EQ(index_.usage().runs, 1u);
  }

 private:
  bool take(std::vector<Location>& taken, uint32_t before, const TestPrompt& prompt) {
    if (free_.empty()) {
      std::vector<Location> out(workload_.evicted_at_once);
      size_t count = index_.evict(out);
      if (count == 0) count = index_.reap(out);
      if (count == 0) return false;
      give_back(std::span(out).first(count));
    }
    // Last out, first in: what a reader should not have is overwritten at once.
    shared_.paths[free_.back()].store(prompt.paths[before + taken.size()], std::memory_order_relaxed);
    taken.push_back(free_.back());
    free_.pop_back();
    return true;
  }
  void give_back(std::span<const Location> locations) {
    for (const Location location : locations) {
      shared_.paths[location].store(0, std::memory_order_relaxed);
      free_.push_back(location);
    }
  }
  void forget_something(std::mt19937_64& random) {
    if (random() % 4 == 0) {
      EXPECT_TRUE(index_.clear(root_));
    } else {
      index_.remove_if([&](Location) { return random() % 1000 == 0; });
    }
    publish_root();
    std::array<Location, 64> out;
    while (const size_t count = index_.reap(out))
      give_back(std::span(out).first(count));
  }
  void publish_root() {
    const SharedRoot root = index_.shared_root(root_);
    shared_.root.store(uint64_t{root.ver} << 32 | root.run, std::memory_order_release);
  }

  AnyIndex& index_;
  const Workload& workload_;
  Shared& shared_;
  const std::vector<TestPrompt> prompts_;
  Root root_;
  std::vector<Location> free_;
};

constexpr const char* kMemoryVariable = "RHIZOME_TEST_READER_MEMORY";
constexpr const char* kNumberVariable = "RHIZOME_TEST_READER_NUMBER";

Mapping attach(const std::string& path, uint64_t bytes, Mapping::Access access) {
  const int mode = access == Mapping::Access::kWrite ? O_RDWR : O_RDONLY;
  return *Mapping::attach_shared(Descriptor(::open(path.c_str(), mode | O_CLOEXEC)), bytes, access);
}

// Not a test of its own: what the others start in processes of their own.
TEST(IndexReaderChild, ReadsUntilItIsStopped) {
  const char* const path = std::getenv(kMemoryVariable);
  if (path == nullptr) GTEST_SKIP() << "only in a child of IndexReaderStress";
  const Mapping words = attach(path, sizeof(Shared), Mapping::Access::kWrite);
  Shared& shared = *reinterpret_cast<Shared*>(words.bytes().data());
  const uint32_t number = static_cast<uint32_t>(std::stoul(std::getenv(kNumberVariable)));
  const std::string folder = std::string(path).substr(0, std::string(path).rfind('/') + 1);
  const Mapping memory =
      attach(folder + std::to_string(shared.index_descriptor), shared.index_bytes, Mapping::Access::kRead);
  if (shared.kind == Kind::kExact) {
    read_until_stopped<IndexReader>(memory.bytes(), shared, number);
  } else {
    read_until_stopped<FingerprintIndexReader>(memory.bytes(), shared, number);
  }
}

std::vector<Child> start_readers(const Mapping& words) {
  const Result<std::string> self = own_executable_path();
  EXPECT_TRUE(self);
  std::vector<Child> children;
  for (uint32_t number = 0; number < kReaders; ++number) {
    SpawnOptions spawn;
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(words.descriptor());
    spawn.environment = {{kMemoryVariable, path}, {kNumberVariable, std::to_string(number)}};
    spawn.stdout_path = "/dev/null";
    spawn.die_with_parent = true;
    Result<Child> child = Child::spawn({*self, "--gtest_filter=IndexReaderChild.*"}, spawn);
    EXPECT_TRUE(child);
    children.push_back(std::move(*child));
  }
  return children;
}

template <class AnyIndex>
void run_with_processes(const Workload& workload, Kind kind) {
  const Mapping words = *Mapping::shareable(sizeof(Shared), Mapping::Sharing::kWritable);
  const Mapping memory = *Mapping::shareable(AnyIndex::shared_bytes(1 << 20));
  Shared& shared = *reinterpret_cast<Shared*>(words.bytes().data());
  shared.workload = workload;
  shared.kind = kind;
  shared.index_descriptor = memory.descriptor();
  shared.index_bytes = memory.bytes().size();
  shared.seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << shared.seed);
  AllReaders readers(shared);
  AnyIndex index({.block_tokens = 1, .shared_memory = memory.bytes(), .remote_readers = &readers});
  Owner<AnyIndex> owner(index, workload, shared);
  std::vector<Child> children = start_readers(words);
  std::mt19937_64 random(shared.seed);
  const auto look_ups = [&] {
    uint64_t least = UINT64_MAX;
    for (const Shared::Counts& counts : shared.counts)
      least = std::min(least, counts.look_ups.load(std::memory_order_relaxed));
    return least;
  };
  while (look_ups() < workload.look_ups) {
    owner.step(random);
    for (Child& child : children)
      ASSERT_FALSE(child.try_wait()) << "a reader has ended";
  }
  shared.stop.store(1);
  for (Child& child : children)
    EXPECT_TRUE(child.wait().success());
  uint64_t blocks = 0;
  uint64_t retries = 0;
  for (const Shared::Counts& counts : shared.counts) {
    EXPECT_EQ(counts.wrong.load(), 0u);
    blocks += counts.blocks.load();
    retries += counts.retries.load();
  }
  EXPECT_GT(blocks, workload.look_ups);
  owner.expect_all_back();
  std::cout << blocks << " blocks read by other processes and compared, " << retries
            << " look-ups begun again, wrong 0\n";
}

TEST(IndexReaderStress, OtherProcessesReadWhatTheyHold) {
  run_with_processes<Index>(kForest, Kind::kExact);
}

TEST(IndexReaderStress, OtherProcessesReadWhatLeaves) {
  run_with_processes<Index>(kHedge, Kind::kExact);
}

TEST(IndexReaderStress, OtherProcessesAreLateToSaySo) {
  run_with_processes<Index>(kPoles, Kind::kExact);
}

TEST(IndexReaderStress, OtherProcessesReadFingerprints) {
  run_with_processes<FingerprintIndex>(kHedge, Kind::kFingerprint);
}

}  // namespace
}  // namespace rhizome
