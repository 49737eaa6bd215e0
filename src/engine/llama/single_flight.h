// Single flight inside the engine: what several requests want is computed by one of them, and the others ask
// again after its batch. A claim lasts for one batch. A request may also wait for a prompt that was computed in the
// last batch and has not ended: its owner is asked later in the same round.
//
// Nobody waits for an owner that is gone: who asks again although no batch came between starts a new round, in which
// nothing is claimed.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/llama/sequence_table.h"

namespace rhizome {

class SingleFlight {
 public:
  explicit SingleFlight(SequenceTable& sequences) : sequences_(sequences) {}

  // A batch is computed: what was claimed for it is done.
  void begin_batch() {
    ++epoch_;
    claims_.clear();
  }
  // Counts batches, from 1.
  uint64_t epoch() const { return epoch_; }

  // The sequence computes the rest of its prompt in the batch that is being put together.
  void claim(int64_t seq) { claims_.push_back(seq); }

  // True when another sequence of the same variant computes more than `available` tokens of the prompt, counted in
  // whole multiples of `unit`, and at least `worth` more. The caller must ask again after the next batch.
  bool should_wait(int64_t seq, std::span<const Token> prompt, VariantId variant, uint32_t available, uint32_t unit,
                   uint32_t worth);

 private:
  SequenceTable& sequences_;
  uint64_t epoch_ = 1;
  std::vector<int64_t> claims_;
};

}  // namespace rhizome
