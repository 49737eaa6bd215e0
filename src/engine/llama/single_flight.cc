#include "engine/llama/single_flight.h"

#include <algorithm>

namespace rhizome {

bool SingleFlight::should_wait(int64_t seq, std::span<const Token> prompt, VariantId variant, uint32_t available,
                               uint32_t unit, uint32_t worth) {
  Sequence& asker = sequences_.at(seq);
  // It waited, and no batch came: that round was empty, and whom it waited for is gone.
  if (asker.waited_epoch == epoch_) begin_batch();
  const auto gives = [&](int64_t other) {
    const Sequence& owner = sequences_.at(other);
    if (other == seq || owner.variant != variant || owner.bypass || owner.tainted) return false;
    return common_prefix(owner.prompt, prompt) / unit * unit > available + worth;
  };
  bool waits = std::any_of(claims_.begin(), claims_.end(), gives);
  for (uint32_t other = 0; other < sequences_.count() && !waits; ++other) {
    const Sequence& owner = sequences_.at(other);
    waits = owner.in_prompt && owner.open_epoch == epoch_ && gives(other);
  }
  if (waits) asker.waited_epoch = epoch_;
  return waits;
}

}  // namespace rhizome
