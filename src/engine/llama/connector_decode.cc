// The forward pass outside exact mode. A batch goes to the engine untouched whenever it can; it is cut only for a
// sliding window (rows must be exported before the window passes them), and for programs without the hook, whose
// prompts are restored here.
#include <algorithm>

#include "engine/llama/connector.h"
#include "engine/llama/hook_time.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// llama_decode's own answer when it finds no cells: the caller may make room and call again. Computing behind rows that
// are not there would give a wrong answer instead.
constexpr int32_t kNoRoom = 1;

}  // namespace

int32_t Connector::decode(const llama_batch& batch) {
  MutexLock lock(mutex_);
  HookTime time(engine_, Counter::kHookTime);
  flight_.begin_batch();
  outputs_.reset();
  int32_t status = 0;
  if (embeddings_ || !prepare(batch)) {
    status = decode_unknown(batch);
  } else {
    if (generated_rows(rows_) == rows_.size()) time.count_as(Counter::kHookTimeDecode);
    status = exact() ? decode_exact() : decode_default(batch);
  }
  transfer_.settle();
  host_flight_.end_batch();
  return status;
}

// Embeddings in or out, or rows shared between sequences: what they leave in the cache is not followed.
int32_t Connector::decode_unknown(const llama_batch& batch) {
  for (const int32_t seq : sequences_of(batch)) {
    if (!sequences_.contains(seq)) continue;
    if (!revive(seq)) return kNoRoom;
    publish(seq);
    taint(seq);
  }
  return engine_.decode(batch, 0);
}

// Translates the batch, brings lost sequences back, and gives every row's sequence its variant. False: the batch is
// not understood.
bool Connector::prepare(const llama_batch& batch) {
  if (!rows_of(batch, sequences_, rows_)) return false;
  drop_repeated_rows();
  ranges_of(rows_, ranges_);
  for (const RowRange& range : ranges_) {
    Sequence& sequence = sequences_.at(range.sequence);
    if (sequence.tainted) continue;
    if (!revive(range.sequence)) return false;
    if (range.size() > 1) sequence.in_prompt = true;
    // The caller goes on from somewhere else than the shadow says: what is there is not known.
    const bool is_first = range.begin == 0 || rows_[range.begin - 1].sequence != range.sequence;
    if (is_first && rows_[range.begin].position != static_cast<int32_t>(sequence.accepted())) {
      taint(range.sequence);
      continue;
    }
    const VariantId variant = sequence.bypass ? kNoVariant : variants_.now(sequence.salt);
    if (sequence.accepted() == 0) {
      sequence.variant = variant;
    } else if (sequence.variant != variant) {
      publish(range.sequence);
      sequence.variant = kNoVariant;  // rows of two kinds: no longer stored or shared
    }
  }
  return true;
}

// After a batch that failed late, the caller sends rows again that were computed before the failure.
void Connector::drop_repeated_rows() {
  const auto repeated = [this](const Row& row) REQUIRES(mutex_) {
    const Sequence& sequence = sequences_.at(row.sequence);
    if (!sequence.ahead || sequence.tainted || row.position < 0) return false;
    const auto position = static_cast<uint32_t>(row.position);
    if (position >= sequence.rows()) return false;
    if (!row.output && sequence.tokens[position] == row.token) return true;
    drop_rows(row.sequence, position);  // it is wanted with an output, or it is another token
    return false;
  };
  rows_.erase(std::remove_if(rows_.begin(), rows_.end(), repeated), rows_.end());
}

uint32_t Connector::generated_rows(std::span<const Row> rows) const {
  // A row on its own that has an output and does not end a prompt is a generated token that is fed back.
  return static_cast<uint32_t>(std::count_if(rows.begin(), rows.end(), [this](const Row& row) REQUIRES(mutex_) {
    return row.output && !sequences_.at(row.sequence).in_prompt;
  }));
}

int32_t Connector::decode_default(const llama_batch& batch) {
  last_.clear();
  const auto is_prompt = [this](const RowRange& range) REQUIRES(mutex_) {
    return range.size() > engine_.facts.block_tokens && !sequences_.at(range.sequence).tainted;
  };
  const bool alone = std::count_if(ranges_.begin(), ranges_.end(), is_prompt) < 2;
  for (RowRange range : ranges_) {
    const Sequence& sequence = sequences_.at(range.sequence);
    // Rows of the same sequence that have an output wait for the last part: what is behind them waits, too.
    const bool next = rows_[range.begin].position == static_cast<int32_t>(sequence.accepted());
    if (!sequence.tainted && next && revive(range.sequence)) {
      restore_within(range);
      if (const int32_t status = compute_early(range, alone); status != 0) return status;
    }
    last_.insert(last_.end(), rows_.begin() + static_cast<ptrdiff_t>(range.begin),
                 rows_.begin() + static_cast<ptrdiff_t>(range.end));
  }
  for (const RowRange& range : ranges_) {
    if (!revive(range.sequence)) return kNoRoom;
  }
  const uint32_t generated = generated_rows(last_);
  int32_t status = 0;
  if (last_.size() == static_cast<size_t>(batch.n_tokens)) {
    status = engine_.decode(batch, generated);
  } else {
    outputs_.split(last_, batch.n_tokens);
    if (!last_.empty()) status = engine_.decode(last_, generated);
  }
  if (status != 0) {
    settle_failure(last_, status);
    return status;
  }
  absorb(last_);
  for (const RowRange& range : ranges_)
    sequences_.at(range.sequence).ahead = false;
  publish_touched(rows_);
  return 0;
}

// For programs without the hook, before they compute a prompt: they cannot be told to ask again.
void Connector::await_host(int32_t seq, std::span<const Token> prompt) {
  const KeyspaceId keyspace = variants_.keyspace(sequences_.at(seq).variant);
  if (!host_flight_.is_on() || keyspace == KeyspaceId{}) return;
  transfer_.settle();  // another prompt of the batch may have what this one wants
  int32_t donor = -1;
  const uint32_t available =
      std::max({sequences_.at(seq).rows(), live_tokens(seq, prompt, sequences_.at(seq).variant, donor),
                static_cast<uint32_t>(engine_.client.peek(keyspace, prompt))});
  if (host_flight_.take(seq, keyspace, prompt, available) == HostFlight::Turn::kCompute) return;
  engine_.counters.add(Counter::kWaits);
  host_flight_.await_others(seq, keyspace, prompt);
}

// For programs without the hook: puts stored or live rows in place of the range's first ones.
void Connector::restore_within(RowRange& range) {
  Sequence& sequence = sequences_.at(range.sequence);
  const size_t end = rows_[range.end - 1].output ? range.end - 1 : range.end;
  if (!options_.restore || sequence.hooked || sequence.bypass || sequence.variant == kNoVariant ||
      end - range.begin < engine_.facts.block_tokens) {
    return;
  }
  std::vector<Token> prompt = sequence.tokens;
  for (size_t i = range.begin; i < end; ++i)
    prompt.push_back(rows_[i].token);
  const uint32_t before = sequence.rows();
  await_host(range.sequence, prompt);
  share_live(range.sequence, prompt);
  restore_stored(range.sequence, prompt, engine_.facts.block_tokens, static_cast<uint32_t>(prompt.size()), true);
  if (sequence.rows() < before) {  // the cache had to be cleared: the earlier rows come back by computing them
    std::vector<Token> earlier(prompt.begin(), prompt.begin() + before);
    sequence.tokens = std::move(earlier);
    sequences_.lose(range.sequence);
    if (!rebuild(range.sequence)) return;
  }
  sequence.counted = false;
  count(sequence, end - range.begin, 0, sequence.rows() - before);
  range.begin += sequence.rows() - before;
  sequence.ahead = sequence.ahead || sequence.rows() > before;
}

// In which steps compute_early() goes, and where it ends; 0: it does nothing.
uint32_t Connector::early_step(const RowRange& range, bool alone, size_t& end) {
  const Sequence& sequence = sequences_.at(range.sequence);
  const uint32_t block = engine_.facts.block_tokens;
  const uint32_t window = engine_.facts.shape.window;
  end = rows_[range.end - 1].output ? range.end - 1 : range.end;
  if (end <= range.begin) return 0;
  const auto position = static_cast<uint32_t>(rows_[range.begin].position);
  const auto rows = static_cast<uint32_t>(end - range.begin);
  if (window > 0) {
    // To a block's end, in steps that leave all of their rows inside the window.
    const uint32_t stop = (position + rows) / block * block;
    end = stop > position ? range.begin + (stop - position) : range.begin;
    const uint32_t inside = window >= 2 * block ? (window - block) / block * block : block;
    return std::max(std::min(engine_.api.n_ubatch(engine_.context), inside), block);
  }
  if (host_flight_.holds(range.sequence)) {
    // As the engine itself would cut the batch, so that it costs no more; what does not fill a step goes with the rest.
    const uint32_t step = std::max(engine_.api.n_ubatch(engine_.context) / block * block, block);
    const auto left = static_cast<uint32_t>(range.end - range.begin) + position % block;
    const uint32_t early = (left - 1) / step * step;
    end = range.begin + (early > position % block ? early - position % block : 0);
    return step;
  }
  return alone || sequence.hooked || sequence.variant == kNoVariant || rows < block ? 0 : rows;
}

// Computes the first rows of a prompt in batches of their own, and stores them: before a window passes them, so that
// the next prompt of the same batch finds them, or because another process may wait for them. Leaves the rows with
// outputs, which must come last.
int32_t Connector::compute_early(RowRange& range, bool alone) {
  Sequence& sequence = sequences_.at(range.sequence);
  const uint32_t block = engine_.facts.block_tokens;
  size_t end = 0;
  const uint32_t step = early_step(range, alone, end);
  const bool is_aligned = engine_.facts.shape.window > 0 || host_flight_.holds(range.sequence);
  if (step == 0) return 0;
  while (range.begin < end) {
    // The first step ends at a block's end, so that the next ones hold whole blocks.
    const uint32_t position = static_cast<uint32_t>(rows_[range.begin].position);
    const size_t count = std::min<size_t>(end - range.begin, is_aligned ? step - position % block : step);
    const auto part = std::span<const Row>(rows_).subspan(range.begin, count);
    if (const int32_t status = engine_.decode(part, 0); status != 0) {
      settle_failure(part, status);
      return status;
    }
    absorb(part);
    sequence.ahead = true;
    publish_ahead(range.sequence);
    range.begin += count;
  }
  return 0;
}

// Takes computed rows into the shadow.
void Connector::absorb(std::span<const Row> rows) {
  for (const Row& row : rows) {
    Sequence& sequence = sequences_.at(row.sequence);
    if (sequence.tainted) continue;
    sequences_.append(row.sequence, std::span(&row.token, 1));
    sequence.open_epoch = row.output ? 0 : flight_.epoch();
    if (row.output) sequence.in_prompt = false;
  }
}

void Connector::publish_touched(std::span<const Row> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last_of_sequence = i + 1 == rows.size() || rows[i + 1].sequence != rows[i].sequence;
    if (last_of_sequence) publish_ahead(rows[i].sequence);
  }
}

// What a failed forward pass left behind. 1 changes nothing; after other failures some rows may have been computed.
void Connector::settle_failure(std::span<const Row> rows, int32_t status) {
  if (status == 1 || status == -1) return;
  for (const Row& row : rows) {
    const Sequence& sequence = sequences_.at(row.sequence);
    if (sequence.tainted) continue;
    const int32_t last = engine_.api.memory_seq_pos_max(engine_.memory, row.sequence);
    if (row.position <= last && row.position == static_cast<int32_t>(sequence.rows())) {
      sequences_.append(row.sequence, std::span(&row.token, 1));
    }
    if (last + 1 < static_cast<int32_t>(sequence.rows())) taint(row.sequence);
  }
}

}  // namespace rhizome
