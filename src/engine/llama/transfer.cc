#include "engine/llama/transfer.h"

#include <algorithm>
#include <utility>

#include "machine/clock.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// A piece that mostly stays in a processor core's cache between being gathered and being copied into the engine;
// smaller ones cost more calls, each of which the engine searches its cells for.
constexpr uint64_t kPieceBytes = uint64_t{3} << 19;
// A buffer larger than this is given back after use.
constexpr size_t kBufferKeptBytes = size_t{8} << 20;

uint32_t blocks_in_piece(const EngineContext& engine) {
  if (!engine.facts.plan.unified) return UINT32_MAX;
  const uint64_t block_bytes = engine.facts.shape.blob.payload_bytes(engine.facts.block_tokens);
  return static_cast<uint32_t>(std::max<uint64_t>(kPieceBytes / block_bytes, 1));
}

}  // namespace

Transfer::Transfer(EngineContext& engine, SequenceTable& sequences)
    : engine_(engine),
      sequences_(sequences),
      block_tokens_(engine.facts.block_tokens),
      window_blocks_(blocks_in_piece(engine)) {}

void Transfer::publish(int64_t seq, KeyspaceId keyspace, uint32_t rows) {
  Sequence& sequence = sequences_.at(seq);
  const uint32_t blocks = std::min(rows, sequence.rows()) / block_tokens_;
  const uint32_t refused = sequence.refused_rows / block_tokens_;
  if (blocks <= std::max(sequence.published_rows / block_tokens_, refused)) return;
  const uint64_t begin_ns = monotonic_now_ns();
  uint32_t from = sequence.published_rows / block_tokens_;
  bool restarted = false;
  bool passed = false;
  bool gone = false;  // the node: once it is back, all is stored that is still there
  bool fetched = false;
  uint32_t until = 0;  // set when a piece has to be shorter than it could be
  while (from < blocks) {
    const uint32_t piece_end = blocks - from > window_blocks_ ? from + window_blocks_ : blocks;
    const uint32_t end = until > from ? until : piece_end;
    const auto tokens = std::span<const Token>(sequence.tokens).first(size_t{end} * block_tokens_);
    auto draft = engine_.client.reserve(keyspace, tokens, from);
    if (!draft && draft.error().code == Code::kFailedPrecondition && !restarted) {
      from = 0;  // what was stored has been evicted since
      restarted = true;
      continue;
    }
    gone = !draft && draft.error().code == Code::kUnavailable;
    if (!draft) break;
    const uint32_t first = draft->first_block();
    const auto count = static_cast<uint32_t>(draft->blocks_count());
    uint32_t complete = 0;
    if (count > 0 && !export_blocks(seq, *draft, complete, fetched)) {
      // The window has passed some rows already: store what comes before them, if anything does.
      passed = complete == 0;
      if (passed) break;
      until = first + complete;
      continue;
    }
    // A draft may have fewer blocks than there are, for want of room to write them in: the next one has more.
    if (count > 0) {
      engine_.client.commit_later(std::move(*draft));
      is_settled_ = false;
    }
    from = count > 0 ? first + count : end;
    sequence.published_rows = from * block_tokens_;
  }
  if (from < blocks && !passed && !gone) {  // no memory for more
    engine_.counters.add(Counter::kBlocksRefused, blocks - std::max(from, refused));
    sequence.refused_rows = blocks * block_tokens_;
  }
  if (gone) sequence.published_rows = 0;
  if (memory_.size() > kBufferKeptBytes) memory_ = {};
  engine_.counters.add(Counter::kExportTime, monotonic_now_ns() - begin_ns);
}

void Transfer::settle() {
  if (std::exchange(is_settled_, true)) return;
  const uint64_t begin_ns = monotonic_now_ns();
  const Settled settled = engine_.client.settle();
  engine_.counters.add(Counter::kBlocksExported, settled.blocks_count);
  engine_.counters.add(Counter::kBytesExported, settled.payload_bytes);
  engine_.counters.add(Counter::kExportTime, monotonic_now_ns() - begin_ns);
}

bool Transfer::export_blocks(int64_t seq, const Draft& draft, uint32_t& complete, bool& fetched) {
  const uint32_t first = draft.first_block() * block_tokens_;
  const uint32_t end = first + static_cast<uint32_t>(draft.blocks_count()) * block_tokens_;
  complete = 0;
  if (engine_.facts.plan.unified) {
    if (!fetch_unified(seq, first, end)) return false;
  } else if (!fetched) {
    fetched = fetch_stream(seq);  // all rows: good for all drafts of a sequence that stands still
    if (!fetched) return false;
  }
  const auto reader = BlobReader::parse(blob_, engine_.facts.shape.blob);
  if (!reader) {
    log_once("export", "rows are not exported: {}", reader.error().reason);
    return false;
  }
  for (size_t i = 0; i < draft.blocks_count(); ++i) {
    if (!reader->copy_payload(first + complete * block_tokens_, block_tokens_, draft.payload(i))) return false;
    ++complete;
  }
  return true;
}

bool Transfer::fetch_unified(int64_t seq, uint32_t first, uint32_t end) {
  const auto& api = engine_.api;
  const llama_seq_id scratch = engine_.facts.plan.scratch;
  api.memory_seq_cp(engine_.memory, static_cast<llama_seq_id>(seq), scratch, static_cast<llama_pos>(first),
                    static_cast<llama_pos>(end));
  const bool fetched = fetch_stream(scratch);
  api.memory_seq_rm(engine_.memory, scratch, -1, -1);
  return fetched;
}

std::span<std::byte> Transfer::buffer(uint64_t bytes) {
  if (memory_.size() < bytes) {
    memory_ = {};  // what is in it need not be kept, nor be copied
    memory_.resize(bytes);
  }
  return std::span(memory_).first(bytes);
}

bool Transfer::fetch_stream(int64_t seq) {
  const auto& api = engine_.api;
  const auto id = static_cast<llama_seq_id>(seq);
  blob_ = buffer(api.state_seq_get_size_ext(engine_.context, id, 0));
  auto* bytes = reinterpret_cast<uint8_t*>(blob_.data());
  return !blob_.empty() && api.state_seq_get_data_ext(engine_.context, bytes, blob_.size(), id, 0) == blob_.size();
}

void Transfer::take_rows(int64_t seq, std::vector<std::byte>& blob) {
  blob.clear();
  if (fetch_stream(seq)) blob.assign(blob_.begin(), blob_.end());
}

Transfer::Outcome Transfer::put_rows(int64_t seq, std::span<const std::byte> blob, std::span<const Token> tokens) {
  const auto& api = engine_.api;
  const llama_seq_id scratch = engine_.facts.plan.scratch;
  if (cells_free() < block_tokens_) return Outcome::kNoCells;
  const auto* bytes = reinterpret_cast<const uint8_t*>(blob.data());
  if (api.state_seq_set_data_ext(engine_.context, bytes, blob.size(), scratch, 0) != blob.size()) {
    return Outcome::kBroken;
  }
  const auto from = static_cast<llama_pos>(sequences_.at(seq).rows());
  const auto end = from + static_cast<llama_pos>(tokens.size());
  const bool there = api.memory_seq_pos_min(engine_.memory, scratch) == from &&
                     api.memory_seq_pos_max(engine_.memory, scratch) >= end - 1;
  api.memory_seq_cp(engine_.memory, scratch, static_cast<llama_seq_id>(seq), from, end);
  api.memory_seq_rm(engine_.memory, scratch, -1, -1);
  if (!there) return Outcome::kBroken;
  sequences_.append(seq, tokens);
  return Outcome::kDone;
}

uint32_t Transfer::cells_free() const {
  uint64_t used = sequences_.cells_used();
  for (uint32_t seq = 0; seq < sequences_.count(); ++seq) {
    if (!sequences_.at(seq).tainted) continue;
    // Its rows are not known; they cannot be more than its positions.
    used += static_cast<uint64_t>(engine_.api.memory_seq_pos_max(engine_.memory, static_cast<llama_seq_id>(seq)) + 1);
  }
  return used >= engine_.facts.shape.cells ? 0 : engine_.facts.shape.cells - static_cast<uint32_t>(used);
}

bool Transfer::window_fits(int64_t seq, uint32_t rows) const {
  const ContextShape& shape = engine_.facts.shape;
  if (shape.window == 0) return true;
  const auto needed = [&shape](uint32_t held) { return std::min(held, shape.window); };
  uint64_t cells = needed(rows) + block_tokens_;
  if (engine_.facts.plan.unified) {
    for (uint32_t other = 0; other < sequences_.count(); ++other) {
      if (other != seq) cells += needed(sequences_.at(other).tainted ? shape.window : sequences_.at(other).rows());
    }
  }
  return cells <= shape.window_cells;
}

uint32_t Transfer::window_from(uint32_t rows) const {
  const uint32_t window = engine_.facts.shape.window;
  // Exact mode depends on every row lying in the cell of its position, so the rows before the window come along.
  if (rows < window || engine_.facts.plan.exact) return 0;
  return (rows + 1 - window) / block_tokens_ * block_tokens_;
}

Transfer::Restored Transfer::restore(int64_t seq, KeyspaceId keyspace, std::span<const Token> prompt, uint32_t unit,
                                     uint32_t rows_in_all, bool what_fits) {
  Restored result;
  const uint32_t held = sequences_.at(seq).rows();
  settle();
  engine_.client.lookup(keyspace, prompt, hit_);
  result.reason = hit_.reason();
  // What leads elsewhere, or is not in the mapped index any more, the node knows.
  if (result.reason == Reason::kNeverStored && engine_.client.is_shared()) {
    const Reason why = engine_.client.explain(keyspace, prompt);
    if (why != Reason::kOff && why != Reason::kQuota) result.reason = why;
  }
  uint32_t end = static_cast<uint32_t>(hit_.blocks_count()) * block_tokens_ / unit * unit / block_tokens_;
  const bool unified = engine_.facts.plan.unified;
  const uint32_t first = unified ? held / block_tokens_ : 0;
  if (unified && end * block_tokens_ > held) {
    const uint32_t cells = cells_free();
    if (rows_in_all - first * block_tokens_ > cells) {
      engine_.counters.add(Counter::kImportsRefused);
      if (!what_fits) {
        hit_.release();
        return Restored{Outcome::kNoCells, result.reason};
      }
      end = std::min(end, first + cells / block_tokens_);
    }
  } else {
    end = std::min(end, engine_.facts.shape.cells / unit * unit / block_tokens_);
  }
  // What lies in a tier below begins to be loaded; piece by piece, the first ones are put in meanwhile.
  if (end * block_tokens_ > held) {
    const auto promoted = static_cast<uint32_t>(engine_.client.promote(hit_, prompt, first, end));
    if (promoted < end) result.reason = hit_.reason();
    end = promoted * block_tokens_ / unit * unit / block_tokens_;
  }
  // What cannot be restored piece by piece is verified as a whole first: a window's rows belong to the end of
  // the prompt, so the end must be known before anything is written.
  if (!unified || engine_.facts.shape.window > 0) {
    const uint32_t verified = verified_end(prompt, Span{first, end});
    if (verified < end) result.reason = hit_.reason();
    end = verified * block_tokens_ / unit * unit / block_tokens_;
    if (!window_fits(seq, end * block_tokens_)) end = 0;
  }
  if (end * block_tokens_ > held) {
    const uint64_t begin_ns = monotonic_now_ns();
    result.outcome = unified ? import_unified(seq, prompt, Span{first, end}) : import_stream(seq, prompt, end, unit);
    engine_.counters.add(Counter::kRestoreTime, monotonic_now_ns() - begin_ns);
    const uint32_t rows = sequences_.at(seq).rows();
    if (result.outcome == Outcome::kDone && rows < end * block_tokens_) result.reason = hit_.reason();
    if (rows > held) {
      const uint64_t loaded = std::min<uint64_t>(rows - held, hit_.loaded_count() * block_tokens_);
      engine_.counters.add(Counter::kTokensRestoredDisk, loaded);
      engine_.counters.add(Counter::kTokensRestoredSlab, rows - held - loaded);
    }
    sequences_.at(seq).published_rows = std::max(sequences_.at(seq).published_rows, rows);
  }
  hit_.release();
  return result;
}

uint32_t Transfer::verified_end(std::span<const Token> prompt, Span blocks) {
  for (uint32_t block = blocks.first; block < blocks.end; ++block) {
    if (!engine_.client.read(hit_, prompt, block)) return block;
  }
  return blocks.end;
}

bool Transfer::gather(std::span<const Token> prompt, uint32_t window, Piece& piece) {
  const auto writer = [&](uint32_t count) {
    return BlobWriter(engine_.facts.shape.blob, block_tokens_, piece.first * block_tokens_, count, window);
  };
  const BlobWriter whole = writer(piece.count);
  blob_ = buffer(whole.bytes());
  whole.frame(blob_);
  payloads_.clear();
  while (payloads_.size() < piece.count) {
    const auto block = static_cast<uint32_t>(payloads_.size());
    const auto payload = engine_.client.read(hit_, prompt, piece.first + block);
    if (!payload) break;
    whole.put(block, *payload, blob_);  // at once: it has just been read as a whole
    payloads_.push_back(*payload);
  }
  if (payloads_.size() == piece.count) return true;
  piece.count = static_cast<uint32_t>(payloads_.size());
  if (piece.count == 0) return false;
  const BlobWriter rest = writer(piece.count);
  blob_ = buffer(rest.bytes());
  rest.write(payloads_, blob_);
  return false;
}

Transfer::Outcome Transfer::import_unified(int64_t seq, std::span<const Token> prompt, Span blocks) {
  const auto& api = engine_.api;
  const llama_seq_id scratch = engine_.facts.plan.scratch;
  const auto id = static_cast<llama_seq_id>(seq);
  const uint32_t window = window_from(blocks.end * block_tokens_);
  bool corrupt = false;
  for (uint32_t block = blocks.first; block < blocks.end && !corrupt; block += window_blocks_) {
    Piece piece{block, std::min(blocks.end - block, window_blocks_)};
    corrupt = !gather(prompt, window, piece);
    if (piece.count == 0) break;
    const uint32_t end_row = (block + piece.count) * block_tokens_;
    const auto* bytes = reinterpret_cast<const uint8_t*>(blob_.data());
    if (api.state_seq_set_data_ext(engine_.context, bytes, blob_.size(), scratch, 0) != blob_.size()) {
      return Outcome::kBroken;
    }
    // A window has rows of the last piece only, and the engine names the position that all of its caches have.
    const bool whole = engine_.facts.shape.window == 0 || end_row == blocks.end * block_tokens_;
    const llama_pos last = api.memory_seq_pos_max(engine_.memory, scratch);
    if (whole && last != static_cast<llama_pos>(end_row) - 1) return Outcome::kBroken;
    const uint32_t from = std::max(block * block_tokens_, sequences_.at(seq).rows());
    api.memory_seq_cp(engine_.memory, scratch, id, static_cast<llama_pos>(from), static_cast<llama_pos>(end_row));
    api.memory_seq_rm(engine_.memory, scratch, -1, -1);
    sequences_.append(seq, prompt.subspan(from, end_row - from));
    engine_.counters.add(Counter::kBytesRestored, blob_.size());
  }
  return Outcome::kDone;
}

Transfer::Outcome Transfer::import_stream(int64_t seq, std::span<const Token> prompt, uint32_t blocks_count,
                                          uint32_t unit) {
  payloads_.clear();
  while (payloads_.size() < blocks_count) {
    // Verified a moment ago and pinned since, but memory may rot at any time.
    const auto payload = engine_.client.read(hit_, prompt, payloads_.size());
    if (!payload) break;
    payloads_.push_back(*payload);
  }
  const uint32_t rows = static_cast<uint32_t>(payloads_.size()) * block_tokens_ / unit * unit;
  if (rows <= sequences_.at(seq).rows()) return Outcome::kDone;
  payloads_.resize(rows / block_tokens_);
  const BlobWriter writer(engine_.facts.shape.blob, block_tokens_, 0, rows / block_tokens_, window_from(rows));
  blob_ = buffer(writer.bytes());
  writer.write(payloads_, blob_);
  const auto id = static_cast<llama_seq_id>(seq);
  const auto* bytes = reinterpret_cast<const uint8_t*>(blob_.data());
  if (engine_.api.state_seq_set_data_ext(engine_.context, bytes, blob_.size(), id, 0) != blob_.size()) {
    return Outcome::kBroken;
  }
  sequences_.truncate(seq, 0);
  sequences_.append(seq, prompt.first(rows));
  engine_.counters.add(Counter::kBytesRestored, blob_.size());
  if (memory_.size() > kBufferKeptBytes) memory_ = {};
  return engine_.api.memory_seq_pos_max(engine_.memory, id) == static_cast<llama_pos>(rows) - 1 ? Outcome::kDone
                                                                                                : Outcome::kBroken;
}

}  // namespace rhizome
