#include "telemetry/counters.h"

#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/host.h"
#include "machine/process.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

class CountersFile : public testing::Test {
 protected:
  std::string path() const { return folder_.path("counters"); }

  const TemporaryFolder folder_;
};

TEST(Counters, StartAtZeroAndCount) {
  const auto counters = Counters::local();
  for (uint32_t i = 0; i < kCountersCount; ++i)
    EXPECT_EQ(counters->get(static_cast<Counter>(i)), 0u);
  counters->add(Counter::kLookups);
  counters->add(Counter::kLookups, 4);
  counters->set(Counter::kMemoryUsed, 100);
  counters->add(Counter::kMemoryUsed, 20);
  counters->sub(Counter::kMemoryUsed, 50);
  EXPECT_EQ(counters->get(Counter::kLookups), 5u);
  EXPECT_EQ(counters->get(Counter::kMemoryUsed), 70u);
  EXPECT_EQ(counters->get(Counter::kTokensLookedUp), 0u);
}

TEST(Counters, DoNotTouchOneAnother) {
  const auto counters = Counters::local();
  for (uint32_t i = 0; i < kCountersCount; ++i)
    counters->set(static_cast<Counter>(i), 1000 + i);
  for (uint32_t i = 0; i < kCountersCount; ++i)
    EXPECT_EQ(counters->get(static_cast<Counter>(i)), 1000 + i);
}

TEST(Counters, LoseNothingBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50'000;
  const auto counters = Counters::local();
  std::vector<Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(start_thread("adder", [&counters] {
                        for (int round = 0; round < kRounds; ++round)
                          counters->add(Counter::kEvictions);
                      }).value());
  }
  threads.clear();
  EXPECT_EQ(counters->get(Counter::kEvictions), static_cast<uint64_t>(kThreads) * kRounds);
}

TEST(CounterTable, HasUniqueNamesWithOneKindAndHelpEach) {
  std::set<std::pair<std::string_view, std::string_view>> series;
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    const CounterInfo& info = counter_info(static_cast<Counter>(i));
    EXPECT_TRUE(info.name.starts_with("rhizome_")) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_TRUE(series.emplace(info.name, info.labels).second) << info.name << " " << info.labels;
    if (info.kind == CounterKind::kTotal) {
      EXPECT_TRUE(info.name.ends_with("_total")) << info.name;
    }
    if (info.kind == CounterKind::kNanoseconds) {
      EXPECT_TRUE(info.name.ends_with("_seconds_total")) << info.name;
    }
    for (uint32_t j = 0; j < i; ++j) {
      const CounterInfo& other = counter_info(static_cast<Counter>(j));
      if (other.name != info.name) continue;
      EXPECT_EQ(other.kind, info.kind) << info.name;
      EXPECT_EQ(other.help, info.help) << info.name;
    }
  }
  EXPECT_EQ(counter_info(Counter::kLookups).name, "rhizome_lookups_total");
  EXPECT_EQ(counter_info(Counter::kStoppedDiverged).labels, "reason=\"diverged\"");
}

TEST(CounterTableDeathTest, HasNoEntryBehindTheLast) {
  EXPECT_DEATH(counter_info(Counter::kEnd), "check failed");
}

TEST_F(CountersFile, IsOneForAllWhoMapIt) {
  const auto writer = Counters::create(path()).value();
  const auto reader = Counters::attach(path()).value();
  writer->add(Counter::kLookups, 3);
  EXPECT_EQ(reader->get(Counter::kLookups), 3u);
  reader->add(Counter::kLookups, 4);
  EXPECT_EQ(writer->get(Counter::kLookups), 7u);
  // The mapping outlives the name.
  ASSERT_TRUE(remove_file(path()).has_value());
  writer->add(Counter::kLookups);
  EXPECT_EQ(reader->get(Counter::kLookups), 8u);
}

// The other process of the test below: this program, started again.
TEST(CountersOfAnotherProcess, AddsAndIsKilled) {
  const char* const path = std::getenv("RHIZOME_TEST_COUNTERS");
  if (path == nullptr) GTEST_SKIP() << "runs only as the child of CountersFile.HearsOfAProcessThatAttachedAndWasKilled";
  Counters::attach(path).value()->add(Counter::kEvictions, 42);
  ::raise(SIGKILL);
}

TEST_F(CountersFile, HearsOfAProcessThatAttachedAndWasKilled) {
  const auto counters = Counters::create(path()).value();
  SpawnOptions options;
  options.environment = {{"RHIZOME_TEST_COUNTERS", path()}};
  options.stdout_path = folder_.path("out");
  Child child =
      Child::spawn({own_executable_path().value(), "--gtest_filter=CountersOfAnotherProcess.*"}, options).value();
  const ExitStatus ended = child.wait();
  EXPECT_TRUE(ended.signalled);
  EXPECT_EQ(ended.value, SIGKILL);
  EXPECT_EQ(counters->get(Counter::kEvictions), 42u);
}

TEST_F(CountersFile, IsMadeOnceForItsOwnerAlone) {
  const auto counters = Counters::create(path()).value();
  struct stat status{};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  counters->add(Counter::kLookups);
  EXPECT_EQ(Counters::create(path()).error().code, Code::kAlreadyExists);
  EXPECT_EQ(counters->get(Counter::kLookups), 1u);
  EXPECT_EQ(Counters::create(folder_.path("none/counters")).error().code, Code::kNotFound);
}

TEST_F(CountersFile, IsRefusedWhenItIsNoPageOfThisVersion) {
  EXPECT_EQ(Counters::attach(path()).error().code, Code::kNotFound);
  Counters::create(path()).value()->add(Counter::kLookups);
  const std::vector<std::byte> good = read_file(path(), 1 << 20).value();
  ASSERT_TRUE(Counters::attach(path()).has_value());

  const auto refused = [this](const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(write_file_atomically(path(), bytes).has_value());
    const auto attached = Counters::attach(path());
    return !attached && attached.error().code == Code::kFailedPrecondition;
  };
  // Magic, version and count: each byte of them.
  for (size_t i = 0; i < 16; ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_TRUE(refused(bad)) << i;
  }
  std::vector<std::byte> shorter = good;
  shorter.resize(good.size() - 8);
  EXPECT_TRUE(refused(shorter));
  std::vector<std::byte> longer = good;
  longer.resize(good.size() + 8);
  EXPECT_TRUE(refused(longer));
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({std::byte{1}}));
  EXPECT_FALSE(refused(good));
}

}  // namespace
}  // namespace rhizome
