// Where the outputs of the caller's last batch are, when the batch was not computed as it was given.
// Split: all rows with outputs were in the last part, at other indices. Saved: the parts were computed one by
// one, each overwrote the outputs of the one before, so they were copied out.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/llama/row_batch.h"

namespace rhizome {

class Outputs {
 public:
  // The last batch went to the engine as it was.
  void reset();
  // Only `rows`, in this order, went to the engine.
  void split(std::span<const Row> rows, int32_t batch_rows);
  // From now on outputs are copied here; `width` values each.
  void begin_saving(size_t width);
  void save(int32_t index, const float* values);

  bool saving() const { return width_ > 0; }
  // The engine's index for the caller's; negative ones count from the last output and stay. The caller's rows that
  // are not in the engine's last batch have no output; they translate to an index that the engine refuses.
  int32_t translate(int32_t index) const;
  // While saving: null when there is none.
  float* saved(int32_t index);
  float* all_saved() { return values_.empty() ? nullptr : values_.data(); }

 private:
  std::vector<int32_t> engine_index_;  // by the caller's index; empty: the same
  size_t width_ = 0;
  std::vector<int32_t> indices_;  // the caller's index of each saved output
  std::vector<float> values_;
};

}  // namespace rhizome
