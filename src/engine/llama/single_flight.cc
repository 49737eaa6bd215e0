#include "engine/llama/single_flight.h"

namespace rhizome {

bool SingleFlight::should_wait(int64_t seq, std::span<const Token> prompt, VariantId variant, uint32_t available,
                               uint32_t unit, uint32_t worth) {
  const auto gives = [&](const Sequence& owner) {
    if (owner.variant != variant || owner.bypass || owner.tainted) return false;
    return common_prefix(owner.prompt, prompt) / unit * unit > available + worth;
  };
  for (const int64_t owner : claims_) {
    if (owner != seq && gives(sequences_.at(owner))) return true;
  }
  Sequence& asker = sequences_.at(seq);
  if (asker.waited_epoch == epoch_) return false;
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    const Sequence& owner = sequences_.at(other);
    if (other == seq || !owner.in_prompt || owner.open_epoch != epoch_ || !gives(owner)) continue;
    asker.waited_epoch = epoch_;
    return true;
  }
  return false;
}

}  // namespace rhizome
