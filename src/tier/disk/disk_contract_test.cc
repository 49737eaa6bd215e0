// The tests that every tier passes, over each way of reading and writing.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "machine/simulated_files.h"
#include "machine/temporary_folder.h"
#include "tier/disk/disk_tier.h"
#include "tier/fault_tier.h"
#include "tier/tier_contract_fixture.h"

namespace rhizome {
namespace {

// A tier with the files that it stands on.
class OwnedDisk final : public Tier {
 public:
  OwnedDisk(const TierNeeds& needs, RingKind kind) {
    DiskTierOptions options{.directory = folder_.path("disk"),
                            .bytes_max = needs.bytes_max,
                            .append_bytes = 256 << 10,
                            .requests_max = needs.requests_max,
                            .ring = kind,
                            .clock = needs.clock};
    if (kind == RingKind::kSynchronous) options.files = &simulated_;
    Result<std::unique_ptr<DiskTier>> disk = DiskTier::open(options);
    if (!disk && disk.error().code == Code::kUnavailable) {
      // A container may forbid io_uring, a limit of memory the registering: then what it falls back to is tested.
      testing::Test::RecordProperty("counted", "no ring of the kind " + std::string(ring_kind_name(kind)));
      options.ring = RingKind::kAuto;
      disk = DiskTier::open(options);
      RHIZOME_CHECK(disk.has_value());
    } else {
      RHIZOME_CHECK(disk.has_value());
      EXPECT_EQ((*disk)->ring_kind(), kind);
    }
    disk_ = std::move(*disk);
  }

  std::string_view name() const override { return disk_->name(); }
  uint64_t read_room_bytes(uint64_t image_bytes) const override { return disk_->read_room_bytes(image_bytes); }
  size_t submit(std::span<const TierRequest> requests) override { return disk_->submit(requests); }
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override { return disk_->collect(out, wait_ns); }
  bool cancel(uint64_t tag) override { return disk_->cancel(tag); }
  TierUsage usage() const override { return disk_->usage(); }

 private:
  TemporaryFolder folder_;
  SimulatedFiles simulated_{5};
  std::unique_ptr<DiskTier> disk_;
};

template <RingKind kKind>
struct DiskMaker {
  static constexpr bool kIsReliable = true;
  static std::unique_ptr<Tier> make(const TierNeeds& needs) { return std::make_unique<OwnedDisk>(needs, kKind); }
};

struct FaultyDiskMaker {
  static constexpr bool kIsReliable = false;
  static std::unique_ptr<Tier> make(const TierNeeds& needs) {
    const TierFaults faults{.busy = 0.1, .fail = 0.1, .fail_after = 0.1, .forget = 0.1, .refuse = 0.1, .delay = 0.3};
    return std::make_unique<FaultTier>(std::make_unique<OwnedDisk>(needs, RingKind::kPool), faults, 11);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(DiskRegistered, TierContract, DiskMaker<RingKind::kRegistered>);
INSTANTIATE_TYPED_TEST_SUITE_P(DiskPlain, TierContract, DiskMaker<RingKind::kPlain>);
INSTANTIATE_TYPED_TEST_SUITE_P(DiskPool, TierContract, DiskMaker<RingKind::kPool>);
INSTANTIATE_TYPED_TEST_SUITE_P(DiskSimulated, TierContract, DiskMaker<RingKind::kSynchronous>);
INSTANTIATE_TYPED_TEST_SUITE_P(DiskFaults, TierContract, FaultyDiskMaker);

}  // namespace
}  // namespace rhizome
