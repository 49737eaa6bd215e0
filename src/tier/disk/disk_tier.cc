#include "tier/disk/disk_tier.h"

#include <utility>

#include "tier/disk/disk_worker.h"

namespace rhizome {

Result<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options) {
  auto worker = std::make_unique<Worker>(options);
  if (const Status opened = worker->open(); !opened) return fail(opened.error());
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(worker)));
}

DiskTier::DiskTier(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
DiskTier::~DiskTier() = default;

size_t DiskTier::submit(std::span<const TierRequest> requests) {
  const size_t count = worker_->queue().submit(requests);
  if (count > 0) worker_->wake();
  return count;
}

size_t DiskTier::collect(std::span<TierCompletion> out, uint64_t wait_ns) {
  return worker_->queue().collect(out, wait_ns);
}

bool DiskTier::cancel(uint64_t tag) {
  return worker_->queue().cancel(tag);
}

TierUsage DiskTier::usage() const {
  const DiskIndex& index = worker_->device().index;
  const DiskQueue& queue = worker_->queue();
  return {.bytes = index.bytes(),
          .bytes_max = worker_->device().options.bytes_max,
          .images = index.images(),
          .requests = queue.under_way(),
          .requests_max = queue.requests_max()};
}

DiskUsage DiskTier::disk_usage() const {
  return worker_->disk_usage();
}

RingKind DiskTier::ring_kind() const {
  return worker_->device().ring->kind();
}

uint64_t DiskTier::image_bytes_max() const {
  return worker_->image_bytes_max();
}

bool DiskTier::contains(const BlockKey& key) const {
  const DiskDevice& device = worker_->device();
  return device.health.mode() != DiskMode::kOffline && device.index.find(key).has_value();
}

Status DiskTier::flush(uint64_t wait_ns) {
  return worker_->flush(wait_ns);
}

size_t DiskTier::collect_forgotten(std::span<BlockKey> out) {
  return worker_->device().forgotten.collect(out);
}

bool DiskTier::forgotten_overflowed() {
  return worker_->device().forgotten.take_overflowed();
}

std::vector<Digest> DiskTier::recovered_keyspaces() const {
  return worker_->device().recovered.keyspaces();
}

void DiskTier::for_each_recovered(const Digest& keyspace, const std::function<void(const RecoveredBlock&)>& take) {
  worker_->device().recovered.for_each(keyspace, worker_->device().index, take);
}

void DiskTier::forget_recovered(const Digest& keyspace) {
  worker_->device().recovered.forget(keyspace);
}

void DiskTier::bound_recovered(uint64_t bytes_max) {
  worker_->device().recovered.bound(bytes_max);
}

uint64_t DiskTier::recovered_bytes() const {
  return worker_->device().recovered.bytes();
}

}  // namespace rhizome
