#include "attach/lease_page.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "concurrency/spin.h"
#include "machine/forked_child.h"
#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kRunsEnd = 1'000'000;

// A free slot, or one that there is not.
uint32_t slot_of(LeaseWriter& writer) {
  return writer.acquire_slot().value_or(kLeaseSlots);
}

// A node's mapping of a page, and a client's.
class LeasePages : public testing::Test {
 protected:
  static Mapping attached(const Mapping& own, Mapping::Access access) {
    const Descriptor handed(::fcntl(own.descriptor(), F_DUPFD_CLOEXEC, 0));
    return Mapping::attach_shared(handed, kSharedPageBytes, access).value();
  }

  std::vector<uint32_t> slots() const {
    std::vector<uint32_t> out;
    reader_.collect_slots(kRunsEnd, out);
    return out;
  }
  std::vector<LeaseTouch> touches(uint32_t now_tick) {
    std::vector<LeaseTouch> out;
    reader_.take_touches(kRunsEnd, now_tick, out);
    return out;
  }
  // As a hostile client sees it.
  LeasePage& page() { return *std::launder(reinterpret_cast<LeasePage*>(theirs_.bytes().data())); }

  const Mapping own_ = Mapping::shareable(kSharedPageBytes, Mapping::Sharing::kWritable).value();
  LeaseReader reader_{own_.bytes()};
  const Mapping theirs_ = attached(own_, Mapping::Access::kWrite);
  LeaseWriter writer_ = LeaseWriter::attach(theirs_.bytes()).value();
};

TEST_F(LeasePages, ShowWhatIsPinned) {
  EXPECT_TRUE(slots().empty());
  const uint32_t first = slot_of(writer_);
  const uint32_t second = slot_of(writer_);
  EXPECT_NE(first, second);
  EXPECT_TRUE(slots().empty());
  writer_.protect(first, 7);
  writer_.protect(second, 9);
  EXPECT_EQ(slots(), (std::vector<uint32_t>{7, 9}));
  writer_.protect(first, 8);
  writer_.clear(second);
  EXPECT_EQ(slots(), std::vector<uint32_t>{8});
  writer_.give_back(first);
  EXPECT_TRUE(slots().empty());
  EXPECT_EQ(slot_of(writer_), first);
}

TEST_F(LeasePages, HaveSlotsForSoManyAndNoMore) {
  for (uint32_t slot = 0; slot < kLeaseSlots; ++slot) {
    ASSERT_EQ(slot_of(writer_), slot);
    writer_.protect(slot, slot + 1);
  }
  EXPECT_FALSE(writer_.acquire_slot().has_value());
  EXPECT_EQ(slots().size(), kLeaseSlots);
  writer_.give_back(17);
  EXPECT_EQ(slot_of(writer_), 17u);
}

TEST_F(LeasePages, TellOfATouchOnce) {
  writer_.note_touch(5, 100);
  EXPECT_EQ(touches(100), (std::vector<LeaseTouch>{{5, 100}}));
  EXPECT_TRUE(touches(100).empty());
  writer_.note_touch(5, 100);
  EXPECT_TRUE(touches(101).empty());
  writer_.note_touch(5, 101);
  EXPECT_EQ(touches(101), (std::vector<LeaseTouch>{{5, 101}}));
  // The clock's low half wraps.
  writer_.note_touch(5, UINT32_MAX);
  EXPECT_EQ(touches(3), (std::vector<LeaseTouch>{{5, UINT32_MAX}}));
}

TEST_F(LeasePages, SpreadRunsOfAnyStride) {
  for (uint32_t stride = 1; stride <= 4096; stride *= 2) {
    for (const uint32_t step : {stride, stride + 1, 3 * stride}) {
      std::set<uint32_t> entries;
      for (uint32_t i = 1; i <= kLeaseTouches; ++i)
        entries.insert(lease_touch_entry(i * step));
      // Thrown at random, 256 would find 162.
      EXPECT_GE(entries.size(), 128u) << step;
    }
  }
}

TEST_F(LeasePages, AreNotTrusted) {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'401;
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    for (std::byte& byte : theirs_.bytes().subspan(random() % kSharedPageBytes))
      byte = static_cast<std::byte>(random());
    const uint32_t now = static_cast<uint32_t>(random());
    const std::vector<uint32_t> pinned = slots();
    EXPECT_LE(pinned.size(), kLeaseSlots);
    EXPECT_TRUE(std::all_of(pinned.begin(), pinned.end(), [](uint32_t run) { return run > 0 && run < kRunsEnd; }));
    for (const LeaseTouch& touch : touches(now)) {
      EXPECT_TRUE(touch.run > 0 && touch.run < kRunsEnd);
      EXPECT_LE(now - touch.tick, uint32_t{INT32_MAX});
    }
  }
  page().slots_end.store(UINT32_MAX);
  for (auto& slot : page().slots)
    slot.store(kRunsEnd);
  page().slots[3].store(kRunsEnd - 1);
  EXPECT_EQ(slots(), std::vector<uint32_t>{kRunsEnd - 1});
}

TEST_F(LeasePages, OpenOnlyWhatIsOne) {
  EXPECT_EQ(LeaseWriter::attach(theirs_.bytes().first(64)).error().code, Code::kInvalidArgument);
  page().head.version = 2;
  EXPECT_EQ(LeaseWriter::attach(theirs_.bytes()).error().code, Code::kFailedPrecondition);
  page().head.magic = 0;
  EXPECT_EQ(LeaseWriter::attach(theirs_.bytes()).error().code, Code::kFailedPrecondition);
}

TEST_F(LeasePages, AreReadAllAtOnce) {
  const Mapping other = Mapping::shareable(kSharedPageBytes, Mapping::Sharing::kWritable).value();
  const LeaseReader second(other.bytes());
  writer_.protect(slot_of(writer_), 3);
  LeaseWriter second_writer = LeaseWriter::attach(other.bytes()).value();
  second_writer.protect(slot_of(second_writer), 4);
  std::vector<uint32_t> pinned = {99};
  const std::array<const LeaseReader*, 2> readers = {&reader_, &second};
  collect_pinned_runs(readers, kRunsEnd, pinned);
  EXPECT_EQ(pinned, (std::vector<uint32_t>{3, 4}));
}

TEST_F(LeasePages, AreWrittenByOtherProcesses) {
  const Descriptor handed(::fcntl(own_.descriptor(), F_DUPFD_CLOEXEC, 0));
  ForkedChild child([&] {
    const auto memory = Mapping::attach_shared(handed, kSharedPageBytes, Mapping::Access::kWrite);
    if (!memory) return 1;
    auto writer = LeaseWriter::attach(memory->bytes());
    if (!writer) return 2;
    writer->protect(slot_of(*writer), 42);
    writer->note_touch(42, 5);
    writer->acknowledge_unmap(6);
    return 0;
  });
  ASSERT_EQ(child.wait(), 0);
  // It has ended without a release: whoever learns of that forgets the page.
  EXPECT_EQ(slots(), std::vector<uint32_t>{42});
  EXPECT_EQ(touches(5), (std::vector<LeaseTouch>{{42, 5}}));
  EXPECT_EQ(reader_.unmap_acknowledged(), 6u);
}

void fill_store_buffer(std::span<std::byte> cold, std::minstd_rand& random) {
  constexpr size_t kLine = 64;
  for (int i = 0; i < 40; ++i) {
    std::byte& place = cold[random() % (cold.size() / kLine) * kLine];
    std::atomic_ref(reinterpret_cast<unsigned char&>(place)).store(1, std::memory_order_relaxed);
  }
}

// The pin against the eviction, as small as it can be: an evictor that finds a run unpinned reuses it, a reader that
// finds it alive after pinning must find it whole until it releases. The full store buffers keep pin and mark there for
// as long as they may stay without a fence; without them nothing is ever seen.
TEST_F(LeasePages, KeepARunFromBeingReusedWhileItIsRead) {
  constexpr uint32_t kRounds = 600'000;
  constexpr uint32_t kRun = 1;
  constexpr int kReads = 500;
  const Mapping cold = Mapping::anonymous(64 << 20, Mapping::Pages::kPrefault).value();
  std::atomic<uint32_t> deaths{0};  // odd: the run is dead
  std::atomic<uint32_t> reuses{0};  // odd: it is somebody else's
  std::atomic<bool> has_begun{false};
  std::atomic<bool> is_over{false};
  uint32_t wrong = 0;
  Thread reader = start_thread("reader", [&] {
                    std::minstd_rand random(1);
                    const uint32_t slot = slot_of(writer_);
                    while (!is_over.load(std::memory_order_relaxed)) {
                      fill_store_buffer(cold.bytes(), random);
                      writer_.protect(slot, kRun);
                      if (deaths.load(std::memory_order_acquire) % 2 == 0) {
                        for (int i = 0; i < kReads; ++i)
                          wrong += reuses.load(std::memory_order_relaxed) % 2;
                      }
                      writer_.clear(slot);
                      has_begun.store(true, std::memory_order_relaxed);
                    }
                  }).value();
  std::vector<uint32_t> pinned;
  const std::array<const LeaseReader*, 1> readers = {&reader_};
  uint32_t reused = 0;
  std::minstd_rand random_of_node(2);
  for (Spin spin; !has_begun.load(std::memory_order_relaxed);)
    spin.wait();
  for (uint32_t round = 0; round < kRounds; ++round) {
    if (round % 8 == 0) fill_store_buffer(cold.bytes(), random_of_node);
    deaths.store(2 * round + 1, std::memory_order_relaxed);
    collect_pinned_runs(readers, kRunsEnd, pinned);
    if (pinned.empty()) {
      reuses.store(1, std::memory_order_relaxed);
      for (Spin spin; spin.rounds() < 20;)
        spin.wait();
      ++reused;
      reuses.store(0, std::memory_order_relaxed);
    }
    deaths.store(2 * round + 2, std::memory_order_release);  // pairs with the reader's look
    for (Spin spin; spin.rounds() < 20;)
      spin.wait();
  }
  is_over.store(true);
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(reused, 0u);
}

TEST(LeasePagesDeathTest, AbortOnASlotGivenBackTwice) {
  const Mapping memory = Mapping::anonymous(kSharedPageBytes).value();
  const LeaseReader reader(memory.bytes());
  LeaseWriter writer = LeaseWriter::attach(memory.bytes()).value();
  const uint32_t slot = slot_of(writer);
  writer.give_back(slot);
  EXPECT_DEATH(writer.give_back(slot), "check failed");
}

}  // namespace
}  // namespace rhizome
