#include "engine/llama/sequence_table.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"

namespace rhizome {

void SequenceTable::append(int64_t seq, std::span<const Token> tokens) {
  Sequence& sequence = at(seq);
  for (const Token token : tokens) {
    uint32_t cell = static_cast<uint32_t>(cell_rows_.size());
    if (cells_free_.empty()) {
      cell_rows_.push_back(1);
    } else {
      cell = cells_free_.back();
      cells_free_.pop_back();
      cell_rows_[cell] = 1;
    }
    ++cells_used_;
    sequence.tokens.push_back(token);
    sequence.cells.push_back(cell);
  }
}

void SequenceTable::share(int64_t from, int64_t to, uint32_t end) {
  Sequence& source = at(from);
  Sequence& target = at(to);
  RHIZOME_CHECK(from != to && end <= source.rows() && source.parked == 0);
  for (uint32_t row = target.rows(); row < end; ++row) {
    ++cell_rows_[source.cells[row]];
    target.tokens.push_back(source.tokens[row]);
    target.cells.push_back(source.cells[row]);
  }
}

void SequenceTable::drop_cell(uint32_t cell) {
  if (cell == kNoCell) return;
  RHIZOME_CHECK(cell_rows_[cell] > 0);
  if (--cell_rows_[cell] > 0) return;
  cells_free_.push_back(cell);
  --cells_used_;
}

void SequenceTable::drop_cells(Sequence& sequence, uint32_t from) {
  for (size_t row = from; row < sequence.cells.size(); ++row)
    drop_cell(sequence.cells[row]);
  sequence.cells.resize(std::min<size_t>(sequence.cells.size(), from));
}

void SequenceTable::truncate(int64_t seq, uint32_t rows) {
  Sequence& sequence = at(seq);
  sequence.held.clear();
  if (rows >= sequence.rows()) return;
  drop_cells(sequence, rows);
  sequence.tokens.resize(rows);
  if (sequence.exact_rows > rows) sequence.exact_rows = rows / kExactUnit * kExactUnit;
  sequence.published_rows = std::min(sequence.published_rows, rows);
  sequence.tail_rows = std::min(sequence.tail_rows, rows);
  sequence.refused_rows = std::min(sequence.refused_rows, rows);
  sequence.parked = std::min(sequence.parked, rows);
}

void SequenceTable::park(int64_t seq, uint32_t rows) {
  Sequence& sequence = at(seq);
  RHIZOME_CHECK(sequence.parked == 0 && rows <= sequence.published_rows && sequence.held.empty());
  for (uint32_t& cell : sequence.cells)
    drop_cell(std::exchange(cell, kNoCell));
  sequence.parked = rows;
}

std::vector<Token> SequenceTable::take_parked(int64_t seq) {
  Sequence& sequence = at(seq);
  sequence.cells.clear();  // they were given back when it was parked
  sequence.published_rows = 0;
  sequence.parked = 0;
  return std::exchange(sequence.tokens, {});
}

void SequenceTable::put_parked(int64_t seq, std::vector<Token> tokens, uint32_t rows) {
  Sequence& sequence = at(seq);
  RHIZOME_CHECK(sequence.rows() == 0);
  sequence.tokens = std::move(tokens);
  sequence.cells.assign(sequence.tokens.size(), kNoCell);
  sequence.published_rows = sequence.parked = rows;
}

void SequenceTable::lose(int64_t seq) {
  Sequence& sequence = at(seq);
  drop_cells(sequence, 0);
  sequence.parked = 0;
  sequence.tail = {};
  sequence.lost = !sequence.tainted && sequence.accepted() > 0;
}

void SequenceTable::empty(int64_t seq) {
  truncate(seq, 0);
  Sequence& sequence = at(seq);
  sequence.tainted = false;
  sequence.replaced = false;
  sequence.tail = {};
  sequence.unstorable = false;
  sequence.lost = false;
  sequence.ahead = false;
  sequence.untold = 0;
  sequence.in_prompt = true;
}

void SequenceTable::reset(int64_t seq) {
  drop_cells(at(seq), 0);
  at(seq) = Sequence{};
}

bool SequenceTable::taint(int64_t seq) {
  Sequence& sequence = at(seq);
  const bool was_known = !sequence.tainted;
  drop_cells(sequence, 0);
  Sequence fresh;
  fresh.tainted = true;
  fresh.salt = std::move(sequence.salt);
  fresh.bypass = sequence.bypass;
  fresh.hooked = sequence.hooked;
  sequence = std::move(fresh);
  return was_known;
}

uint32_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const size_t limit = std::min(a.size(), b.size());
  return static_cast<uint32_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(limit), b.begin()).first -
                               a.begin());
}

}  // namespace rhizome
