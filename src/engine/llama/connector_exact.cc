// The forward pass in exact mode. An answer must not depend on what was cached, nor on who else is served, so every
// prompt is computed the same way whatever happens around it: alone, from position 0, in whole units of 64 rows at
// multiples of 64, the rest in one batch of its own, and then row by row. Tokens that do not fill a unit are held
// until the prompt's end is known. Only rows of whole units are stored or kept for the next request.
//
// Why 64, and why one stream a sequence: llama.cpp's flash attention on CPUs treats 64 rows and more in tiles of 64
// cells at absolute indices, and adds fewer rows up in the order of cells over the span of the whole cache.
#include <algorithm>

#include "engine/llama/connector.h"

namespace rhizome {

int32_t Connector::decode_exact() {
  const llama_vocab* vocab = engine_.api.model_get_vocab(engine_.api.get_model(engine_.context));
  outputs_.begin_saving(static_cast<size_t>(engine_.api.vocab_n_tokens(vocab)));
  for (const RowRange& range : ranges_) {
    if (const int32_t status = compute_exact(range); status != 0) return status;
  }
  for (const RowRange& range : ranges_) {
    sequences_.at(range.sequence).ahead = false;
    publish_ahead(range.sequence);
  }
  return 0;
}

int32_t Connector::compute_exact(const RowRange& range) {
  const auto rows = std::span<const Row>(rows_).subspan(range.begin, range.size());
  Sequence& sequence = sequences_.at(range.sequence);
  if (!revive(range.sequence)) return 1;  // as llama_decode says that there are no cells
  if (sequence.tainted) {
    const int32_t status = engine_.decode(rows, generated_rows(rows));
    if (status == 0 && rows.back().output)
      outputs_.save(rows.back().index, engine_.api.get_logits_ith(engine_.context, -1));
    return status;
  }
  const bool generated = range.size() == 1 && rows.back().output && !sequence.in_prompt && sequence.held.empty();
  if (!generated) return compute_exact_prompt(range);
  return compute_rows(range.sequence, std::span(&rows.front().token, 1), true, rows.front().index, 1);
}

int32_t Connector::compute_exact_prompt(const RowRange& range) {
  Sequence& sequence = sequences_.at(range.sequence);
  const Row& end = rows_[range.end - 1];
  const uint32_t accepted = sequence.accepted();
  // Rows behind the whole units depend on how they were batched: they are computed again as part of this prompt.
  std::vector<Token> tokens(sequence.tokens.begin() + sequence.exact_rows, sequence.tokens.end());
  tokens.insert(tokens.end(), sequence.held.begin(), sequence.held.end());
  for (size_t i = range.begin; i < range.end; ++i)
    tokens.push_back(rows_[i].token);
  drop_rows(range.sequence, sequence.exact_rows);
  sequence.held.clear();

  const uint32_t begin = sequence.rows();
  if (!sequence.hooked && options_.restore && sequence.variant != kNoVariant) {
    std::vector<Token> prompt = sequence.tokens;
    prompt.insert(prompt.end(), tokens.begin(), tokens.end() - (end.output ? 1 : 0));
    const auto whole = std::span(prompt).first(prompt.size() / kExactUnit * kExactUnit);
    await_host(range.sequence, whole);
    restore_stored(range.sequence, whole, kExactUnit, static_cast<uint32_t>(prompt.size()), true);
    if (sequence.rows() < begin) {  // the cache had to be cleared
      tokens.assign(prompt.begin(), prompt.end());
      if (end.output) tokens.push_back(end.token);
    }
    sequence.exact_rows = sequence.rows();
  }
  const uint32_t base = std::min(begin, sequence.rows());  // the position of tokens.front()
  int32_t status = 0;
  const auto left = [&] { return std::span<const Token>(tokens).subspan(sequence.rows() - base); };
  while (status == 0 && left().size() >= kExactUnit) {
    const bool output = end.output && left().size() == kExactUnit;
    status = compute_rows(range.sequence, left().first(kExactUnit), output, end.index, 0);
    if (status != 0) break;
    sequence.exact_rows = sequence.rows();
    if (sequence.exact_rows % exact_publish_step(range.sequence) == 0) publish_ahead(range.sequence);
  }
  if (status == 0 && end.output && !left().empty()) {
    status = compute_rows(range.sequence, left(), true, end.index, 0);
  }
  if (status == 0) {
    sequence.held.assign(left().begin(), left().end());
    sequence.tail_rows = sequence.rows();
    sequence.open_epoch = end.output ? 0 : flight_.epoch();
    return 0;
  }
  // The caller may send the range again, but not what it had sent before: that stays held.
  sequence.ahead = sequence.rows() > accepted;
  if (sequence.rows() < accepted) {
    const auto rest = left();
    sequence.held.assign(rest.begin(), rest.begin() + (accepted - sequence.rows()));
  }
  return status;
}

int32_t Connector::compute_rows(int32_t seq, std::span<const Token> tokens, bool output, int32_t index,
                                uint32_t generated) {
  last_.clear();
  const auto first = static_cast<int32_t>(sequences_.at(seq).rows());
  for (size_t i = 0; i < tokens.size(); ++i) {
    last_.push_back(Row{tokens[i], first + static_cast<int32_t>(i), seq, false, 0});
  }
  last_.back().output = output;
  const int32_t status = engine_.decode(last_, generated);
  if (status != 0) {
    settle_failure(last_, status);
    return status;
  }
  sequences_.append(seq, tokens);
  if (output) {
    outputs_.save(index, engine_.api.get_logits_ith(engine_.context, -1));
    sequences_.at(seq).in_prompt = false;
  }
  return 0;
}

// The engine leaves rows that the window has passed out of what it gives, even when it still has them. And what others
// wait for they get piece by piece.
uint32_t Connector::exact_publish_step(int32_t seq) const {
  const uint32_t window = engine_.facts.shape.window;
  uint32_t step = UINT32_MAX;
  if (window > 0) step = window;
  if (host_flight_.holds(seq)) step = std::min(step, engine_.api.n_ubatch(engine_.context));
  return std::max(kExactUnit, step / kExactUnit * kExactUnit);
}

}  // namespace rhizome
