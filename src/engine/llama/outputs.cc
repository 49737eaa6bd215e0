#include "engine/llama/outputs.h"

#include <algorithm>
#include <limits>

namespace rhizome {

void Outputs::reset() {
  engine_index_.clear();
  width_ = 0;
  indices_.clear();
  values_.clear();
}

void Outputs::split(std::span<const Row> rows, int32_t batch_rows) {
  engine_index_.assign(static_cast<size_t>(batch_rows), std::numeric_limits<int32_t>::max());
  for (size_t i = 0; i < rows.size(); ++i) {
    engine_index_[static_cast<size_t>(rows[i].index)] = static_cast<int32_t>(i);
  }
}

void Outputs::begin_saving(size_t width) {
  reset();
  width_ = width;
}

void Outputs::save(int32_t index, const float* values) {
  if (values == nullptr) return;
  indices_.push_back(index);
  values_.insert(values_.end(), values, values + width_);
}

int32_t Outputs::translate(int32_t index) const {
  if (engine_index_.empty() || index < 0 || index >= static_cast<int32_t>(engine_index_.size())) return index;
  return engine_index_[static_cast<size_t>(index)];
}

float* Outputs::saved(int32_t index) {
  const auto count = static_cast<int32_t>(indices_.size());
  if (index < 0) return -index <= count ? values_.data() + static_cast<size_t>(count + index) * width_ : nullptr;
  const auto at = std::find(indices_.begin(), indices_.end(), index);
  return at == indices_.end() ? nullptr : values_.data() + static_cast<size_t>(at - indices_.begin()) * width_;
}

}  // namespace rhizome
