// Moves blocks between the engine's cache and the client: publish() copies whole blocks out as they are
// computed, restore() puts stored ones in instead of computing them.
//
// Two ways in and out. Unified cache: any range, through the scratch sequence, in pieces of about a MiB.
// One stream a sequence: the engine only gives and takes whole sequences, so one blob holds them.
// Nothing reaches the engine before identity and checksum were verified, the blob was written from
// verified parts, and the cells it needs were found free.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block/reason.h"
#include "client/client.h"
#include "engine/llama/engine_context.h"
#include "engine/llama/sequence_table.h"

namespace rhizome {

class Transfer {
 public:
  Transfer(EngineContext& engine, SequenceTable& sequences);

  // Stores the whole blocks among the first `rows` rows that are not stored yet. What does not fit is left. They may be
  // on their way when it returns: nothing finds them, and they are not counted, before settle().
  void publish(int64_t seq, KeyspaceId keyspace, uint32_t rows);
  // Costs nothing when nothing is on its way.
  void settle();

  enum class Outcome : uint8_t {
    kDone,     // the sequence holds at least what it held before
    kNoCells,  // nothing done: the engine has no room for it
    kBroken,   // the engine refused half-way: its cache must be cleared
  };
  struct Restored {
    Outcome outcome = Outcome::kDone;
    Reason reason = Reason::kNeverStored;
  };

  // Puts stored blocks of `prompt` behind the rows that the sequence has, which must be a prefix of it; whole
  // multiples of `unit` tokens (a multiple of the block size) in all. The request will have `rows_in_all` rows,
  // computed ones included: when there are no cells for them, `what_fits` false makes that kNoCells, true
  // restores as many blocks as fit.
  Restored restore(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt, uint32_t unit, uint32_t rows_in_all,
                   bool what_fits);

  // The rows that the engine has of a sequence, as one blob of its own making; empty when it does not give them.
  void take_rows(int64_t seq, std::vector<std::byte>& blob);
  // Puts those of them that `tokens` names behind the sequence's rows; kNoCells, and nothing done, without room.
  Outcome put_rows(int64_t seq, std::span<const std::byte> blob, std::span<const Token> tokens);

  // Cells of the full cache that nobody uses.
  uint32_t cells_free() const;

 private:
  bool export_blocks(int64_t seq, const Draft& draft, uint32_t& complete, bool& fetched);
  std::span<std::byte> buffer(uint64_t bytes);
  bool fetch_unified(int64_t seq, uint32_t first, uint32_t end);
  bool fetch_stream(int64_t seq);

  // Block numbers; rows of the sequence end inside or at the end of the first.
  struct Span {
    uint32_t first = 0;
    uint32_t end = 0;
  };
  bool window_fits(int64_t seq, uint32_t rows) const;
  uint32_t verified_end(std::span<const Token> prompt, Span blocks);
  // Blocks that are put in at once.
  struct Piece {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  // Writes the blob of the piece, each payload once it has verified. False when one does not: the piece then ends
  // before it.
  bool gather(std::span<const Token> prompt, uint32_t window, Piece& piece);
  Outcome import_unified(int64_t seq, std::span<const Token> prompt, Span blocks);
  // As many whole units of the first blocks as still verify; nothing when the sequence has as many rows.
  Outcome import_stream(int64_t seq, std::span<const Token> prompt, uint32_t blocks_count, uint32_t unit);
  // The first position of the window's rows that a sequence of `rows` rows needs, rounded down to a block.
  uint32_t window_from(uint32_t rows) const;

  EngineContext& engine_;
  SequenceTable& sequences_;
  const uint32_t block_tokens_;
  const uint32_t window_blocks_;  // blocks that are moved in one piece
  bool is_settled_ = true;
  Hit hit_;
  std::vector<std::byte> memory_;  // grows, and is not cleared between uses
  std::span<std::byte> blob_;      // the part of it in use
  std::vector<std::span<const std::byte>> payloads_;
};

}  // namespace rhizome
