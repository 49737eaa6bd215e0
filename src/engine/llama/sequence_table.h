// What every sequence of an engine context holds, as far as the connector knows: the shadow of the
// engine's cache. Row i of a sequence is the KV of its token at position i.
//
// A sequence is *tainted* when its rows became unknown (shifted, restored by somebody else, embeddings,
// shared between sequences in a way that is not followed): it is left alone until it is emptied.
//
// A sequence is *parked* when its rows left the engine's cache while no request used it: the first ones, whole blocks
// of them, are only in the store, and the few behind them are kept as the engine gave them out.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "block/token.h"

namespace rhizome {

// Names what the rows of a sequence depend on beside their tokens: adapters, salt, and so on. Rows of
// different variants are never mixed. kNoVariant: must not be stored or shared.
using VariantId = uint32_t;
inline constexpr VariantId kNoVariant = 0;

// Exact mode computes prompts in batches of this many rows at multiples of it.
inline constexpr uint32_t kExactUnit = 64;

struct Sequence {
  std::vector<Token> tokens;       // of the rows present, from position 0
  std::vector<uint32_t> cells;     // the ledger's number for each row
  std::vector<Token> held;         // accepted behind the rows, not computed yet (exact mode)
  uint32_t exact_rows = 0;         // exact mode: the first rows, computed in whole aligned batches
  uint32_t tail_rows = 0;          // exact mode: rows up to here came from the prompt's last batch
  bool ahead = false;              // its last rows came from a batch that failed later: the caller may send them again
  uint32_t published_rows = 0;     // the first rows whose blocks have been stored, or were found stored
  uint32_t refused_rows = 0;       // up to here there was no room to store them; tried again with the next block
  VariantId variant = kNoVariant;  // of the rows; meaningful while there are any
  bool tainted = false;
  bool replaced = false;        // tainted: somebody else wrote the rows, for whom is not known
  bool unstorable = false;      // a window may have passed rows before their keyspace was known
  bool lost = false;            // the engine's rows are gone; `tokens` says what they were
  bool idle = false;            // the caller says so, before it asks for another sequence
  uint32_t parked = 0;          // the first rows, which only the store has
  std::vector<std::byte> tail;  // parked: the engine's own blob of the rows behind them, or of more than those
  uint64_t tail_checksum = 0;

  // The request that uses the sequence.
  std::string salt;
  std::vector<Token> prompt;  // as the hook was last told
  bool bypass = false;        // asked not to be cached
  bool hooked = false;        // the hook restores for it; decode must not
  bool in_prompt = true;      // no output was asked of it since its prompt began
  bool counted = false;       // its look-up has been counted
  uint32_t untold = 0;        // rows that were dropped in an answer that did not say so: the caller asks again
  uint64_t open_epoch = 0;    // the decode in which its prompt was last computed without an end
  uint64_t waited_epoch = 0;  // the decode after which it last waited for another sequence's prompt

  uint32_t rows() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t accepted() const { return static_cast<uint32_t>(tokens.size() + held.size()); }
};

class SequenceTable {
 public:
  explicit SequenceTable(uint32_t sequences_count) : sequences_(sequences_count) {}

  uint32_t count() const { return static_cast<uint32_t>(sequences_.size()); }
  bool contains(int64_t seq) const { return seq >= 0 && seq < static_cast<int64_t>(sequences_.size()); }
  Sequence& at(int64_t seq) { return sequences_[static_cast<size_t>(seq)]; }
  const Sequence& at(int64_t seq) const { return sequences_[static_cast<size_t>(seq)]; }

  // New rows in cells of their own.
  void append(int64_t seq, std::span<const Token> tokens);
  // Rows [rows of `to`, end) of `from` become rows of `to`, in the same cells.
  void share(int64_t from, int64_t to, uint32_t end);
  // Keeps the first `rows` rows, forgets the others and what is held. Exact rows end at a whole unit.
  void truncate(int64_t seq, uint32_t rows);
  // The engine's rows are gone; the tokens are kept to compute them again.
  void lose(int64_t seq);
  // No row has a cell any more, and the first `rows` are in the store only.
  void park(int64_t seq, uint32_t rows);
  // Leaves a parked sequence without rows; gives what they were.
  std::vector<Token> take_parked(int64_t seq);
  // Undoes that; the sequence must have no rows.
  void put_parked(int64_t seq, std::vector<Token> tokens, uint32_t rows);
  // No rows, and none unknown. The request that uses the sequence stays: a server empties a sequence after it has
  // told whose prompt comes next.
  void empty(int64_t seq);
  // As new: no rows, not tainted, no request.
  void reset(int64_t seq);
  // Rows unknown from now on; true if they were known.
  bool taint(int64_t seq);

  // Cells of the engine's cache that rows take, shared ones once. Tainted sequences are not counted.
  uint32_t cells_used() const { return cells_used_; }

 private:
  static constexpr uint32_t kNoCell = UINT32_MAX;  // of a parked row

  void drop_cell(uint32_t cell);
  void drop_cells(Sequence& sequence, uint32_t from);

  std::vector<Sequence> sequences_;
  std::vector<uint16_t> cell_rows_;   // rows in a cell, by ledger number
  std::vector<uint32_t> cells_free_;  // ledger numbers to use again
  uint32_t cells_used_ = 0;
};

// Length of the common beginning.
uint32_t common_prefix(std::span<const Token> a, std::span<const Token> b);

}  // namespace rhizome
