#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"
#include "slab/slab.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

// Every slot is filled with its owner's mark; a slot with two owners shows as a mark that is not one's own.
void hammer(Slab& slab, uint64_t seed, std::atomic<uint64_t>& wrong) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<SlotRef, int>> mine;
  std::vector<Pinned> pins;
  for (int i = 0; i < 4000; ++i) {
    const uint64_t action = random() % 8;
    if (action < 4) {
      Result<Reserved> reserved = slab.reserve(random() % 2 == 0 ? 4096 : 20000);
      if (!reserved || action == 0) continue;
      const int mark = static_cast<int>(random() % 256);
      std::memset(reserved->bytes().data(), mark, reserved->bytes().size());
      mine.emplace_back(slab.commit(std::move(*reserved), static_cast<uint64_t>(mark)), mark);
    } else if (!mine.empty()) {
      const auto [ref, mark] = mine.back();
      Result<Pinned> pinned = slab.pin(ref);
      if (!pinned) {
        ++wrong;
        continue;
      }
      for (const std::byte byte : pinned->bytes().first(512))
        wrong += byte != static_cast<std::byte>(mark);
      if (action < 7) {
        wrong += !slab.free(ref);
        wrong += slab.free(ref).has_value();
        mine.pop_back();
      }
      if (pins.size() < 8) pins.push_back(std::move(*pinned));
      if (random() % 4 == 0) pins.clear();
    }
  }
  pins.clear();
  for (const auto& [ref, mark] : mine)
    wrong += !slab.free(ref);
}

TEST(SlabStress, ThreadsNeverShareASlot) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Result<std::unique_ptr<Slab>> slab = Slab::create({.budget_bytes = 1 << 20});
  ASSERT_TRUE(slab);
  std::atomic<uint64_t> wrong{0};
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("hammer", [&, i] { hammer(**slab, seed + i, wrong); })));
    }
  }
  EXPECT_EQ(wrong, 0u);
  expect_drained(**slab);
}

// What several threads know of, pin, replace and free; a name there may be stale at any time.
class SharedNames {
 public:
  static constexpr size_t kNames = 64;

  SlotRef get(size_t at) const { return unpack(names_[at].load(std::memory_order_acquire)); }
  SlotRef swap(size_t at, SlotRef fresh) { return unpack(names_[at].exchange(pack(fresh))); }

 private:
  static uint64_t pack(SlotRef ref) { return uint64_t{ref.index} << 32 | ref.generation; }
  static SlotRef unpack(uint64_t bits) { return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)}; }

  std::array<std::atomic<uint64_t>, kNames> names_{};
};

constexpr uint64_t kStressSizes[] = {2000, 5000, 20'000};

// Bytes of a tenant: its number in the upper bits, or zero where it has not written.
bool none_of_others(std::span<const std::byte> bytes, uint32_t tenant) {
  for (size_t i = 0; i < bytes.size(); i += 97) {
    if (bytes[i] != std::byte{0} && static_cast<uint32_t>(bytes[i]) / 64 != tenant) return false;
  }
  return true;
}

void replace(Slab& slab, SharedNames& names, std::mt19937_64& random, uint32_t tenant, std::atomic<uint64_t>& wrong) {
  const uint64_t bytes = kStressSizes[random() % std::size(kStressSizes)];
  Result<Reserved> reserved = slab.reserve(bytes, tenant);
  if (!reserved) {
    const std::optional<SpareChunk> spare = slab.emptiest_chunk(bytes);
    for (const SlotRef ref : spare ? spare->slots : std::vector<SlotRef>{})
      static_cast<void>(slab.free_if_unpinned(ref));
    return;
  }
  wrong += !none_of_others(reserved->bytes(), tenant);
  const int mark = static_cast<int>(tenant * 64 + 1 + random() % 63);
  std::memset(reserved->bytes().data(), mark, bytes);
  const SlotRef old = names.swap(random() % SharedNames::kNames,
                                 slab.commit(std::move(*reserved), static_cast<uint64_t>(mark) << 32 | bytes));
  static_cast<void>(slab.free(old));
}

void read(Slab& slab, const SharedNames& names, std::mt19937_64& random, std::vector<Pinned>& held,
          std::atomic<uint64_t>& wrong, std::atomic<uint64_t>& reads) {
  const SlotRef ref = names.get(random() % SharedNames::kNames);
  Result<Pinned> pinned = slab.pin(ref);
  if (!pinned) return;
  ++reads;
  const auto mark = static_cast<std::byte>(pinned->checksum() >> 32);
  wrong += pinned->bytes().size() != (pinned->checksum() & UINT32_MAX);
  for (size_t i = 0; i < pinned->bytes().size(); i += 61)
    wrong += pinned->bytes()[i] != mark;
  const Result<uint32_t> pins = slab.pins(ref);
  wrong += pins && *pins == 0;
  if (random() % 4 == 0) {
    const Result<FreeOutcome> outcome = slab.free_if_unpinned(ref, 1);
    wrong += outcome && *outcome == FreeOutcome::kFreed && slab.pin(ref).has_value();
  }
  if (held.size() < 4) held.push_back(std::move(*pinned));
  if (random() % 3 == 0) held.clear();
}

TEST(SlabStress, ReadersPinWhatOthersReplaceAndFree) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Result<std::unique_ptr<Slab>> slab = Slab::create({.budget_bytes = 512 << 10, .overhead_bytes = 50});
  ASSERT_TRUE(slab);
  SharedNames names;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> reads{0};
  {
    std::vector<Thread> threads;
    for (uint32_t tenant = 0; tenant < 4; ++tenant) {
      threads.push_back(std::move(*start_thread("mixed", [&, tenant] {
        std::mt19937_64 random(seed + tenant);
        std::vector<Pinned> held;
        for (int i = 0; i < 6000; ++i) {
          if (random() % 3 == 0) {
            replace(**slab, names, random, tenant % 3, wrong);
          } else {
            read(**slab, names, random, held, wrong, reads);
          }
          const SlabUsage usage = (*slab)->usage();
          wrong += usage.used_bytes > usage.budget_bytes;
        }
      })));
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(reads, 1000u);
  EXPECT_GT((*slab)->usage().chunks_cut_again, 0u);
  for (size_t i = 0; i < SharedNames::kNames; ++i)
    static_cast<void>((*slab)->free(names.get(i)));
  expect_drained(**slab);
}

// The threads have nothing in common but the slab: names pass without any order, and readers take no lock. What the
// slab itself promises is then all that orders the bytes.
TEST(SlabStress, OnlyTheSlabOrdersWhatIsReadAndWrittenAgain) {
  Result<std::unique_ptr<Slab>> slab = Slab::create({.budget_bytes = 1 << 20});
  ASSERT_TRUE(slab);
  std::atomic<uint64_t> name{0};
  std::atomic<bool> done{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> reads{0};
  {
    std::vector<Thread> readers;
    for (int reader = 0; reader < 2; ++reader) {
      readers.push_back(std::move(*start_thread("reader", [&] {
        while (!done.load(std::memory_order_relaxed)) {
          const uint64_t bits = name.load(std::memory_order_relaxed);
          const Result<Pinned> pinned = (*slab)->pin({static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)});
          if (!pinned) continue;
          for (const std::byte byte : pinned->bytes())
            wrong.fetch_add(byte != static_cast<std::byte>(pinned->checksum()), std::memory_order_relaxed);
          reads.fetch_add(1, std::memory_order_relaxed);
        }
      })));
    }
    for (int i = 0; i < 3000; ++i) {
      const SlotRef ref = store(**slab, 512, i % 256);
      name.store(uint64_t{ref.index} << 32 | ref.generation, std::memory_order_relaxed);
      // Mostly a pin comes and goes before the slot is freed.
      const uint64_t before = reads.load(std::memory_order_relaxed);
      for (int round = 0; round < 100 && reads.load(std::memory_order_relaxed) == before; ++round)
        yield_thread();
      wrong.fetch_add((*slab)->free(ref) ? 0 : 1, std::memory_order_relaxed);
    }
    done.store(true, std::memory_order_relaxed);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(reads, 100u);
  expect_drained(**slab);
}

}  // namespace
}  // namespace rhizome
