// Rows: what a llama_batch says, one struct a token, with everything filled in that llama.cpp lets a
// caller leave out; and the way back.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block/token.h"
#include "engine/llama/llama_api.h"
#include "engine/llama/sequence_table.h"

namespace rhizome {

struct Row {
  Token token = 0;
  int32_t position = 0;
  int32_t sequence = 0;
  bool output = false;
  int32_t index = 0;  // in the caller's batch
};

// Consecutive rows of one sequence at consecutive positions; at most the last of them has an output.
struct RowRange {
  int32_t sequence = 0;
  size_t begin = 0;  // into the rows
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Translates a batch. Positions that are left out continue the sequence as llama.cpp does it. False when the
// batch is something else than tokens of one sequence each: embeddings, or rows shared by sequences.
bool rows_of(const llama_batch& batch, const SequenceTable& sequences, std::vector<Row>& rows);

// Cuts rows into ranges.
void ranges_of(std::span<const Row> rows, std::vector<RowRange>& ranges);

// The sequences that a batch touches, also one that rows_of() does not translate.
std::vector<int32_t> sequences_of(const llama_batch& batch);

// Memory for a llama_batch of one sequence a row.
class BatchBuffer {
 public:
  // Valid until the next call.
  llama_batch fill(std::span<const Row> rows);

 private:
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<int32_t> counts_;
  std::vector<llama_seq_id> ids_;
  std::vector<llama_seq_id*> id_pointers_;
  std::vector<int8_t> outputs_;
};

}  // namespace rhizome
