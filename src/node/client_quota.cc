// What a client keeps from going: blocks that its hazard slots and its contexts pin, and chunks that are gone but for
// its mapping.
#include <algorithm>
#include <vector>

#include "node/client_session.h"

namespace rhizome {

// One generation for all that has gone since the last look.
void ClientSession::ask_to_unmap() {
  const uint32_t heeded = lease_.front().unmap_acknowledged();
  // Who acknowledges what nobody has asked for is not believed.
  if (heeded <= unmap_generation_) {
    std::erase_if(retired_, [heeded](const Retired& retired) { return retired.generation <= heeded; });
  }
  const Slab& slab = domain_->store.shared().slab;
  const size_t gone = std::erase_if(handed_chunks_, [&](const auto& handed) {
    if (slab.chunk_layout(handed.first)) return false;
    retired_.push_back({handed.second, unmap_generation_ + 1});
    return true;
  });
  if (gone > 0) notice_.front().ask_to_unmap(++unmap_generation_);
  domain_->counters.sub(Counter::kMemoryRetired, retired_bytes_);
  retired_bytes_ = 0;
  for (const Retired& retired : retired_)
    retired_bytes_ += retired.bytes;
  domain_->counters.add(Counter::kMemoryRetired, retired_bytes_);
}

uint64_t ClientSession::kept_bytes(bool by_nobody) const {
  std::vector<RunId> runs;
  if (!by_nobody) lease_.front().collect_slots(UINT32_MAX, runs);
  domain_->contexts.collect_runs(by_nobody ? Contexts::kNobody : number_, runs);
  return (by_nobody ? 0 : retired_bytes_) + domain_->store.bytes_on_paths(runs);
}

Status ClientSession::check_quota(uint64_t now_ns) {
  if (!is_welcomed_) {
    // All domains of a node have the same patience.
    if (now_ns - began_ns_ < domains_.front()->hello_wait_ns) return {};
    return fail(Code::kDeadlineExceeded, "it has not said hello");
  }
  ask_to_unmap();
  if (kept_bytes(false) <= domain_->pinned_bytes_max) {
    over_quota_since_ns_ = 0;
    return {};
  }
  if (over_quota_since_ns_ == 0) over_quota_since_ns_ = now_ns;
  if (now_ns - over_quota_since_ns_ < domain_->pinned_grace_ns) return {};
  const Error error{Code::kResourceExhausted, "it keeps more memory from others than one client may"};
  static_cast<void>(send(error_frame(error), 0, {}));
  domain_->counters.add(Counter::kClientsDroppedQuota);
  return fail(error);
}

}  // namespace rhizome
