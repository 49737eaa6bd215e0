#include "engine/llama/row_batch.h"

#include <algorithm>

namespace rhizome {

bool rows_of(const llama_batch& batch, const SequenceTable& sequences, std::vector<Row>& rows) {
  rows.clear();
  if (batch.token == nullptr || batch.embd != nullptr || batch.n_tokens <= 0) return false;
  // llama-batch.cpp (init): no sequence means 0; no position continues the sequence; no outputs means the last.
  std::vector<int32_t> next(sequences.count());
  for (uint32_t seq = 0; seq < sequences.count(); ++seq)
    next[seq] = static_cast<int32_t>(sequences.at(seq).accepted());
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    Row row;
    row.index = i;
    row.token = static_cast<Token>(batch.token[i]);
    if (batch.seq_id != nullptr) {
      if (batch.n_seq_id != nullptr && batch.n_seq_id[i] != 1) return false;
      row.sequence = batch.seq_id[i][0];
    }
    if (!sequences.contains(row.sequence) || batch.token[i] < 0) return false;
    if (batch.pos == nullptr && sequences.at(row.sequence).tainted) return false;
    row.position = batch.pos != nullptr ? batch.pos[i] : next[static_cast<size_t>(row.sequence)];
    next[static_cast<size_t>(row.sequence)] = row.position + 1;
    row.output = batch.logits != nullptr ? batch.logits[i] != 0 : i == batch.n_tokens - 1;
    rows.push_back(row);
  }
  return true;
}

void ranges_of(std::span<const Row> rows, std::vector<RowRange>& ranges) {
  ranges.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool continues = !ranges.empty() && rows[i].sequence == rows[i - 1].sequence &&
                           rows[i].position == rows[i - 1].position + 1 && !rows[i - 1].output;
    if (continues) {
      ranges.back().end = i + 1;
    } else {
      ranges.push_back(RowRange{rows[i].sequence, i, i + 1});
    }
  }
}

std::vector<int32_t> sequences_of(const llama_batch& batch) {
  std::vector<int32_t> found;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    if (batch.seq_id == nullptr) {
      found.push_back(0);
      break;
    }
    const int32_t count = batch.n_seq_id != nullptr ? batch.n_seq_id[i] : 1;
    for (int32_t k = 0; k < count; ++k)
      found.push_back(batch.seq_id[i][k]);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

llama_batch BatchBuffer::fill(std::span<const Row> rows) {
  const size_t count = rows.size();
  tokens_.resize(count);
  positions_.resize(count);
  counts_.assign(count, 1);
  ids_.resize(count);
  id_pointers_.resize(count);
  outputs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    tokens_[i] = static_cast<llama_token>(rows[i].token);
    positions_[i] = rows[i].position;
    ids_[i] = rows[i].sequence;
    id_pointers_[i] = &ids_[i];
    outputs_[i] = rows[i].output ? 1 : 0;
  }
  llama_batch batch{};
  batch.n_tokens = static_cast<int32_t>(count);
  batch.token = tokens_.data();
  batch.pos = positions_.data();
  batch.n_seq_id = counts_.data();
  batch.seq_id = id_pointers_.data();
  batch.logits = outputs_.data();
  return batch;
}

}  // namespace rhizome
