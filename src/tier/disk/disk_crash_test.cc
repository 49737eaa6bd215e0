// Every call of the file layer that an operation makes, times everything that can become of it; every kind of damage,
// times every place. Whatever happened: old or new, never other; and then it works again.
#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tier/disk/disk_damage_fixture.h"
#include "tier/disk/disk_world_fixture.h"

namespace rhizome {
namespace {

struct Scenario {
  std::string_view name;
  bool reclaims;  // what was there before may be forgotten
  void (*prepare)(DiskWorld&);
  void (*act)(DiskWorld&);
};

constexpr uint32_t kKept = 8;  // blocks that were synced before anything happened

void write_some(DiskWorld& world, uint32_t first, uint32_t count) {
  for (uint32_t number = first; number < first + count; ++number)
    world.write(number);
}

void prepare_kept(DiskWorld& world) {
  ASSERT_TRUE(world.open());
  write_some(world, 0, kKept);
  ASSERT_TRUE(world.tier().flush());
}

// Several segments are full, and some of what is in the oldest was read.
void prepare_full(DiskWorld& world) {
  prepare_kept(world);
  write_some(world, 100, 45);
  ASSERT_TRUE(world.tier().flush());
  write_some(world, 100, 4);
  for (const uint32_t number : {0, 1, 2, 102, 104, 106})
    world.read(number);
}

const Scenario kScenarios[] = {
    // More than the append buffers hold: whoever works at the device, some of it is written by the end.
    {"write", false, prepare_kept, [](DiskWorld& world) { write_some(world, 20, 24); }},
    {"overwrite", false,
     [](DiskWorld& world) {
       prepare_kept(world);
       write_some(world, 20, 4);
       ASSERT_TRUE(world.tier().flush());
     },
     [](DiskWorld& world) {
       write_some(world, 20, 4);
       (void)world.tier().flush();
       world.read_all();
     }},
    {"flush", false, prepare_kept,
     [](DiskWorld& world) {
       write_some(world, 20, 2);
       (void)world.tier().flush();
     }},
    {"flush by age", false, prepare_kept,
     [](DiskWorld& world) {
       write_some(world, 20, 2);
       world.clock().advance_ns(1'000'000'000);
       world.write(22);
       (void)world.tier().flush();
     }},
    {"seal", false, prepare_kept,
     [](DiskWorld& world) {
       write_some(world, 20, 16);
       (void)world.tier().flush();
     }},
    {"reclaim", true, prepare_full,
     [](DiskWorld& world) {
       write_some(world, 200, 30);
       (void)world.tier().flush();
     }},
    {"remove", false, prepare_kept,
     [](DiskWorld& world) {
       write_some(world, 20, 6);
       world.remove(21);
       (void)world.tier().flush();
       world.remove(22);
       write_some(world, 22, 1);
       (void)world.tier().flush();
     }},
    {"read", false, prepare_kept, [](DiskWorld& world) { world.read_all(); }},
    {"close", false,
     [](DiskWorld& world) {
       prepare_kept(world);
       write_some(world, 20, 3);
     },
     [](DiskWorld& world) { world.close(); }},
    {"open sealed", false,
     [](DiskWorld& world) {
       prepare_kept(world);
       world.close();
     },
     [](DiskWorld& world) {
       if (world.open()) world.read_all();
     }},
    {"open after a power cut", false,
     [](DiskWorld& world) {
       prepare_kept(world);
       write_some(world, 20, 3);
       world.files().cut_power();
       world.close();
     },
     [](DiskWorld& world) {
       if (world.open()) world.read_all();
     }},
    {"first open", true, [](DiskWorld&) {},
     [](DiskWorld& world) {
       if (world.open()) write_some(world, 20, 3);
     }},
};

// One case; false: the fault was not reached.
bool run_case(const Scenario& scenario, uint64_t call, FileFault fault, uint64_t seed, WorldCounts& counts) {
  DiskWorld world(seed, counts);
  scenario.prepare(world);
  world.files().inject(call, fault);
  scenario.act(world);
  if (!world.files().has_fired()) return false;
  ++counts.cases;
  // A device that has failed once goes on: what the process still gives is right, too.
  if (fault != FileFault::kKill && world.is_open()) world.read_all();
  if (fault == FileFault::kKill || seed % 2 == 0) {
    world.files().cut_power();
  } else if (!world.is_open()) {
    world.files().end_process();
  }
  std::vector<uint32_t> kept(kKept);
  for (uint32_t i = 0; i < kKept; ++i)
    kept[i] = i;
  // A device that says that it has synced and has not loses what it wants.
  const bool is_kept = !scenario.reclaims && fault != FileFault::kLostWrite;
  world.check_after(is_kept ? std::span<const uint32_t>(kept) : std::span<const uint32_t>());
  return true;
}

void expect_right(const WorldCounts& counts) {
  EXPECT_EQ(counts.wrong_bytes, 0u);
  EXPECT_EQ(counts.hangs, 0u);
  EXPECT_EQ(counts.lost, 0u);
}

// Added up over the tests of this file; the last one says them.
WorldCounts& all_counts() {
  static WorldCounts counts;
  return counts;
}

void add(const WorldCounts& counts) {
  WorldCounts& all = all_counts();
  all.cases += counts.cases;
  all.wrong_bytes += counts.wrong_bytes;
  all.hangs += counts.hangs;
}

TEST(DiskCrash, EveryCallOfEveryOperation) {
  constexpr FileFault kFaults[] = {FileFault::kKill, FileFault::kIoError, FileFault::kNoSpace, FileFault::kShort,
                                   FileFault::kLostWrite};
  WorldCounts counts;
  for (const Scenario& scenario : kScenarios) {
    uint64_t of_scenario = 0;
    for (const FileFault fault : kFaults) {
      uint64_t call = 0;
      for (; call < 400; ++call) {
        SCOPED_TRACE(std::string(scenario.name) + ", call " + std::to_string(call) + ", fault " +
                     std::to_string(static_cast<int>(fault)));
        const WorldCounts before = counts;
        if (!run_case(scenario, call, fault, call * 5 + 1, counts)) break;
        ++of_scenario;
        EXPECT_EQ(counts.wrong_bytes, before.wrong_bytes);
        EXPECT_EQ(counts.lost, before.lost);
      }
      ASSERT_LT(call, 400u) << "it does not end";
    }
    EXPECT_GT(of_scenario, 4u) << scenario.name;
    std::cout << scenario.name << ": " << of_scenario << " cases\n";
  }
  expect_right(counts);
  add(counts);
}

TEST(DiskCrash, EveryDamageInEveryPlace) {
  WorldCounts counts;
  for (const Damage damage : kDamages) {
    for (const DamagePlace place : kDamagePlaces) {
      for (const bool is_live : {true, false}) {
        for (uint64_t seed = 0; seed < 2; ++seed) {
          SCOPED_TRACE(std::string(damage_name(damage)) + " " + std::string(place_name(place)) +
                       (is_live ? ", live" : ", closed") + ", seed " + std::to_string(seed));
          const WorldCounts before = counts;
          run_damage(damage, place, is_live, seed, counts, {});
          EXPECT_EQ(counts.wrong_bytes, before.wrong_bytes);
          EXPECT_EQ(counts.lost, before.lost);
        }
      }
    }
  }
  expect_right(counts);
  EXPECT_GE(counts.cases, 190u);
  add(counts);
}

TEST(DiskCrash, ADirectoryThatBecomesReadOnly) {
  WorldCounts counts;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    DiskWorld world(seed, counts);
    prepare_kept(world);
    write_some(world, 20, 4);
    world.files().set_read_only(true);
    ++counts.cases;
    write_some(world, 30, 20);
    (void)world.tier().flush();
    EXPECT_EQ(world.tier().disk_usage().mode, DiskMode::kReadOnly);
    EXPECT_FALSE(world.write(70)) << "a device that cannot be written refuses";
    for (uint32_t number = 0; number < kKept; ++number)
      EXPECT_TRUE(world.read(number)) << "what is there can still be read";
    world.close();
    EXPECT_EQ(world.open().error().code, Code::kPermissionDenied);
    world.files().set_read_only(false);
    world.check_after(std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  }
  expect_right(counts);
  add(counts);
}

TEST(DiskCrash, AFileThatIsDeletedBehindTheStoresBack) {
  WorldCounts counts;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    DiskWorld world(seed, counts);
    prepare_full(world);
    world.files().unlink(std::string(DiskWorld::kDirectory) + "/segment-0000" + std::to_string(seed));
    ++counts.cases;
    world.read_all();
    write_some(world, 300, 60);
    world.read_all();
    EXPECT_EQ(world.tier().disk_usage().mode, DiskMode::kGood) << "an open file goes on";
    world.check_after({});
    EXPECT_EQ(world.files().paths().size(), 4u) << "it is made again";
  }
  expect_right(counts);
  add(counts);
}

// Without the check the same cases give wrong bytes: else they could not fail.
TEST(DiskCrash, PlantedBugsAreCaught) {
  for (const RecordCheck check : {RecordCheck::kGeneration, RecordCheck::kKey, RecordCheck::kImage}) {
    WorldCounts counts;
    RecordChecks checks;
    checks.skipped[static_cast<size_t>(check)] = true;
    for (const Damage damage : {Damage::kFlipped, Damage::kSwapped, Damage::kOlder})
      for (const DamagePlace place : {DamagePlace::kPayload, DamagePlace::kWholeRecord, DamagePlace::kWholeSegment})
        run_damage(damage, place, true, 1, counts, checks);
    EXPECT_GT(counts.wrong_bytes, 0u) << "without the check of the " << record_check_name(check);
    std::cout << "without the check of the " << record_check_name(check) << ": " << counts.wrong_bytes
              << " wrong reads in " << counts.cases << " cases\n";
  }
}

TEST(DiskCrash, WhatWasCounted) {
  const WorldCounts& all = all_counts();
  const std::string told = "crash_cases " + std::to_string(all.cases) + ", crash_wrong_bytes " +
                           std::to_string(all.wrong_bytes) + ", crash_hangs " + std::to_string(all.hangs);
  std::cout << "crash_cases " << all.cases << "\ncrash_wrong_bytes " << all.wrong_bytes << "\ncrash_hangs " << all.hangs
            << "\n";
  RecordProperty("counted", told);
  EXPECT_GE(all.cases, 500u);
  EXPECT_EQ(all.wrong_bytes, 0u);
  EXPECT_EQ(all.hangs, 0u);
}

}  // namespace
}  // namespace rhizome
