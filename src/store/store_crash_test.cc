// A store over a disk tier on simulated files, with a clock of its own: the machine loses power at random moments, the
// device fails, and the store is opened again over what is left. Whatever is found then is the oracle's bytes; what was
// flushed before and not damaged is found.
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/random.h"
#include "machine/simulated_files.h"
#include "store/store_fixture.h"
#include "telemetry/log.h"
#include "tier/disk/disk_tier.h"

namespace rhizome {
namespace {

constexpr const char* kDirectory = "/cache/blocks";
constexpr uint64_t kPayload = 6000;
constexpr uint64_t kSecondNs = 1000000000;

class CrashingStore {
 public:
  explicit CrashingStore(uint64_t seed) : files_(seed), random_(seed) {}

  // False: the device does not let the tier be opened now.
  bool open() {
    Result<std::unique_ptr<DiskTier>> tier = DiskTier::open({.directory = kDirectory,
                                                             .bytes_max = 4 << 20,
                                                             .segment_bytes = 512 << 10,
                                                             .append_bytes = 64 << 10,
                                                             .ring = RingKind::kSynchronous,
                                                             .files = &files_,
                                                             .clock = &clock_});
    if (!tier) return false;
    user_ = std::make_unique<StoreUser>(StoreOptions{
        .memory_bytes = 3 << 20, .tier = std::move(*tier), .tiering = {.background = false, .clock = &clock_}});
    root_ = user_->open(keyspace_named("a"), kPayload);
    return true;
  }

  static std::vector<Token> prompt(uint32_t number) {
    std::vector<Token> tokens;
    for (uint32_t block = 0; block < 1 + number % 5; ++block) {
      tokens.insert(tokens.end(), 15, 7);
      tokens.push_back(static_cast<Token>(block == 0 ? number % 7 : number * 10 + block));
    }
    return tokens;
  }

  void put(uint32_t number) { user_->put(root_, prompt(number)); }
  size_t get(uint32_t number) { return user_->get(root_, prompt(number)); }

  void work(uint32_t steps) {
    for (uint32_t i = 0; i < steps; ++i) {
      const auto number = static_cast<uint32_t>(random_() % 60);
      if (random_() % 2 == 0) {
        put(number);
      } else {
        hits_ += get(number);
      }
      if (random_() % 4 == 0) clock_.advance_ns(random_() % kSecondNs);
      // The tier's thread works beside this one: what it has done by now is what this seed leaves to chance.
      for (int turns = 0; turns < 20 && user_->store->step(); ++turns) {
      }
    }
  }

  // In order, or as if the power had gone.
  void end(bool cuts) {
    if (cuts) files_.inject(0, FileFault::kKill);
    user_.reset();
    if (cuts) {
      files_.cut_power();
    } else {
      files_.end_process();
    }
  }

  void flush() { user_->store->flush(clock_.monotonic_ns() + kSecondNs); }
  SimulatedFiles& files() { return files_; }
  uint64_t hits() const { return hits_; }
  uint64_t count(Counter counter) const { return user_->count(counter); }

 private:
  SimulatedFiles files_;
  ManualClock clock_{kSecondNs};
  std::mt19937_64 random_;
  std::unique_ptr<StoreUser> user_;
  Root root_;
  uint64_t hits_ = 0;
};

class StoreCrash : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kSilent); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(StoreCrash, AnOrderlyEndLosesNothing) {
  CrashingStore store(1);
  ASSERT_TRUE(store.open());
  for (uint32_t number = 0; number < 60; ++number)
    store.put(number);
  store.flush();
  store.end(false);
  ASSERT_TRUE(store.open());
  size_t found = 0;
  size_t stored = 0;
  for (uint32_t number = 0; number < 60; ++number) {
    found += store.get(number);
    stored += CrashingStore::prompt(number).size() / 16;
  }
  EXPECT_EQ(found, stored);
  EXPECT_GT(store.count(Counter::kPromotions), 100u);
  EXPECT_EQ(store.count(Counter::kIdentityMismatchesTier), 0u);
}

TEST_F(StoreCrash, ThePowerGoesAgainAndAgain) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  CrashingStore store(seed);
  std::mt19937_64 random(seed);
  for (int life = 0; life < 40 && !HasFailure(); ++life) {
    ASSERT_TRUE(store.open());
    store.work(80);
    if (random() % 3 == 0) store.flush();
    store.end(random() % 3 != 0);
  }
  EXPECT_GT(store.hits(), 500u);
}

TEST_F(StoreCrash, ADeviceThatFailsNowAndThen) {
  for (const FileFault fault : {FileFault::kIoError, FileFault::kNoSpace, FileFault::kShort, FileFault::kLostWrite}) {
    const uint64_t seed = random_u64();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", fault " << static_cast<int>(fault));
    CrashingStore store(seed);
    for (int life = 0; life < 10 && !HasFailure(); ++life) {
      ASSERT_TRUE(store.open());
      store.files().set_chance(0.02, fault);
      store.work(60);
      store.files().set_chance(0, FileFault::kNone);
      store.end(life % 2 == 0);
    }
    EXPECT_GT(store.hits(), 50u);
  }
}

// Bits turn in the files while nobody looks.
TEST_F(StoreCrash, DamagedSegmentsAreMisses) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  CrashingStore store(seed);
  ASSERT_TRUE(store.open());
  for (uint32_t number = 0; number < 60; ++number)
    store.put(number);
  store.flush();
  store.end(false);
  for (const std::string& path : store.files().paths()) {
    std::vector<std::byte> contents = store.files().contents(path);
    for (size_t at = random() % 9000; at < contents.size(); at += 1 + random() % 9000)
      contents[at] ^= std::byte{0x10};
    store.files().set_contents(path, contents);
  }
  ASSERT_TRUE(store.open());
  size_t found = 0;
  for (uint32_t number = 0; number < 60; ++number)
    found += store.get(number);
  EXPECT_LT(found, 100u) << "nothing was damaged: the test shows nothing";
  store.work(100);
  store.end(false);
}

}  // namespace
}  // namespace rhizome
