#include "engine/llama/connector.h"

#include <algorithm>
#include <utility>

#include "engine/llama/hook_time.h"
#include "telemetry/log.h"

namespace rhizome {

Result<std::unique_ptr<Connector>> Connector::attach(const LlamaApi& api, llama_context* context,
                                                     const ContextPlan& plan, const ModelIdentity& model,
                                                     Client& client, Counters& counters,
                                                     const ConnectorOptions& options) {
  auto shape = probe_context(api, context, plan);
  if (!shape) return fail(shape.error());
  counters.add(Counter::kTokensComputedProbe, kProbeTokens);
  if (shape->window > 0 && shape->window < client.block_tokens()) {
    return fail(Code::kUnimplemented, "the sliding window is shorter than a block");
  }
  auto facts = gather_facts(api, context, plan, *shape, options.tenant, client.block_tokens());
  counters.add(Counter::kContexts);
  return std::unique_ptr<Connector>(new Connector(api, context, std::move(facts), model, client, counters, options));
}

Connector::Connector(const LlamaApi& api, llama_context* context, ContextFacts facts, const ModelIdentity& model,
                     Client& client, Counters& counters, const ConnectorOptions& options)
    : options_(options),
      engine_(api, context, std::move(facts), client, counters),
      sequences_(engine_.facts.plan.sequences_count),
      transfer_(engine_, sequences_),
      variants_(engine_, model),
      flight_(sequences_),
      host_flight_(engine_, sequences_) {}

Connector::~Connector() {
  engine_.counters.sub(Counter::kContexts);
}

void Connector::clear(bool data) {
  MutexLock lock(mutex_);
  for (uint32_t seq = 0; seq < sequences_.count(); ++seq)
    publish(static_cast<int32_t>(seq));
  engine_.api.memory_clear(engine_.memory, data);
  for (uint32_t seq = 0; seq < sequences_.count(); ++seq)
    sequences_.empty(seq);
  host_flight_.settle();
}

bool Connector::remove(int32_t seq, int32_t begin, int32_t end) {
  MutexLock lock(mutex_);
  const HookTime time(engine_, Counter::kHookTime);
  const bool from_start = begin <= 0;
  const auto first = static_cast<uint32_t>(std::max(begin, 0));
  if (!sequences_.contains(seq)) {
    const bool all_rows = from_start && end < 0;
    for (uint32_t other = 0; seq < 0 && !all_rows && other < sequences_.count(); ++other) {
      prepare_for_change(static_cast<int32_t>(other));
    }
    const bool removed = engine_.api.memory_seq_rm(engine_.memory, seq, begin, end);
    for (uint32_t other = 0; removed && seq < 0 && other < sequences_.count(); ++other) {
      if (all_rows) {
        sequences_.empty(other);
      } else {
        changed(static_cast<int32_t>(other));
      }
    }
    return removed;
  }
  const Sequence& sequence = sequences_.at(seq);
  const bool to_end = end < 0 || static_cast<uint32_t>(end) >= sequence.accepted() || sequence.tainted;
  if (!to_end) prepare_for_change(seq);
  if (first < sequence.rows()) publish(seq);  // the rows die here
  // What is held was never given to the engine, so the engine need not be asked about it.
  const bool removed = (first >= sequence.rows() && !sequence.tainted && to_end) ||
                       engine_.api.memory_seq_rm(engine_.memory, seq, begin, end);
  if (!removed) return false;
  if (from_start && to_end) {
    sequences_.empty(seq);
  } else if (sequence.tainted || first >= sequence.accepted()) {
    return true;
  } else if (!to_end) {
    changed(seq);
  } else if (first >= sequence.rows()) {
    sequences_.at(seq).held.resize(first - sequence.rows());
  } else {
    sequences_.truncate(seq, first);
  }
  host_flight_.settle();
  // Without the hook this is how another prompt begins, and what follows may be a single token of it.
  if (exact() && !sequence.hooked) sequences_.at(seq).in_prompt = true;
  return true;
}

void Connector::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  MutexLock lock(mutex_);
  if (sequences_.contains(from)) revive(from);
  engine_.api.memory_seq_cp(engine_.memory, from, to, begin, end);
  if (!engine_.facts.plan.unified && from != to) engine_.copied_between_streams();
  if (!sequences_.contains(from) || !sequences_.contains(to) || from == to) return;
  const Sequence& source = sequences_.at(from);
  if (begin > 0 || source.tainted || source.lost || !source.held.empty() || sequences_.at(to).accepted() > 0 ||
      sequences_.at(to).tainted) {
    taint(to);
    return;
  }
  const uint32_t rows = end < 0 ? source.rows() : std::min(source.rows(), static_cast<uint32_t>(end));
  sequences_.share(from, to, rows);
  Sequence& target = sequences_.at(to);
  target.variant = source.variant;
  target.salt = source.salt;
  target.bypass = source.bypass;
  target.in_prompt = source.in_prompt;
  target.exact_rows = std::min(source.exact_rows, rows / kExactUnit * kExactUnit);
  target.tail_rows = std::min(source.tail_rows, rows);
  target.published_rows = std::min(source.published_rows, rows);
}

void Connector::keep(int32_t seq) {
  MutexLock lock(mutex_);
  engine_.api.memory_seq_keep(engine_.memory, seq);
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    if (static_cast<int32_t>(other) != seq) sequences_.empty(other);
  }
  host_flight_.settle();
}

void Connector::shift(int32_t seq, int32_t begin, int32_t end, int32_t by) {
  MutexLock lock(mutex_);
  if (sequences_.contains(seq)) prepare_for_change(seq);
  engine_.api.memory_seq_add(engine_.memory, seq, begin, end, by);
  if (sequences_.contains(seq)) changed(seq);
}

void Connector::divide(int32_t seq, int32_t begin, int32_t end, int by) {
  MutexLock lock(mutex_);
  if (sequences_.contains(seq)) prepare_for_change(seq);
  engine_.api.memory_seq_div(engine_.memory, seq, begin, end, by);
  if (sequences_.contains(seq)) changed(seq);
}

int32_t Connector::position_min(int32_t seq) {
  MutexLock lock(mutex_);
  const int32_t position = engine_.api.memory_seq_pos_min(engine_.memory, seq);
  // Rows that the caller was told it has, but that are held, lost or parked, are rows from position 0.
  if (!sequences_.contains(seq) || (position >= 0 && sequences_.at(seq).parked == 0)) return position;
  return sequences_.at(seq).accepted() > 0 ? 0 : position;
}

int32_t Connector::position_max(int32_t seq) {
  MutexLock lock(mutex_);
  const int32_t position = engine_.api.memory_seq_pos_max(engine_.memory, seq);
  if (!sequences_.contains(seq) || sequences_.at(seq).tainted) return position;
  return std::max(position, static_cast<int32_t>(sequences_.at(seq).accepted()) - 1);
}

void Connector::replaced(int32_t seq) {
  MutexLock lock(mutex_);
  for (uint32_t other = 0; other < sequences_.count(); ++other) {
    if (seq < 0 || static_cast<int32_t>(other) == seq) {
      publish(static_cast<int32_t>(other));
      taint(static_cast<int32_t>(other));
      sequences_.at(other).replaced = true;
    }
  }
  host_flight_.settle();
}

void Connector::set_adapters(std::vector<AdapterUse> adapters, bool known) {
  MutexLock lock(mutex_);
  variants_.set_adapters(std::move(adapters), known);
}

void Connector::set_control_vector(std::string encoding) {
  MutexLock lock(mutex_);
  variants_.set_control_vector(std::move(encoding));
}

void Connector::set_causal(bool causal) {
  MutexLock lock(mutex_);
  variants_.set_causal(causal);
}

void Connector::set_embeddings(bool embeddings) {
  MutexLock lock(mutex_);
  embeddings_ = embeddings;
}

float* Connector::logits() {
  MutexLock lock(mutex_);
  return outputs_.saving() ? outputs_.all_saved() : engine_.api.get_logits(engine_.context);
}

float* Connector::logits_at(int32_t index) {
  MutexLock lock(mutex_);
  if (outputs_.saving()) return outputs_.saved(index);
  return engine_.api.get_logits_ith(engine_.context, outputs_.translate(index));
}

int32_t Connector::output_index(int32_t index) {
  MutexLock lock(mutex_);
  return outputs_.translate(index);
}

void Connector::forget(int32_t seq) {
  engine_.api.memory_seq_rm(engine_.memory, seq, -1, -1);
  sequences_.reset(seq);
}

void Connector::drop_rows(int32_t seq, uint32_t from) {
  Sequence& sequence = sequences_.at(seq);
  sequence.held.clear();
  if (from >= sequence.rows()) return;
  publish(seq);
  engine_.api.memory_seq_rm(engine_.memory, seq, static_cast<llama_pos>(from), -1);
  sequences_.truncate(seq, from);
}

void Connector::taint(int32_t seq) {
  if (sequences_.taint(seq)) engine_.counters.add(Counter::kSequencesTainted);
}

// What is known of the rows ends here, so what can be stored is stored; and rows that were lost or parked are there
// again.
void Connector::prepare_for_change(int32_t seq) {
  if (revive(seq)) publish(seq);
}

// After rows were changed in another way than by computing. Those that could not be brought back for it stay lost: the
// hook has them computed again for the next prompt.
void Connector::changed(int32_t seq) {
  if (!sequences_.at(seq).lost) taint(seq);
}

void Connector::publish(int32_t seq) {
  publish_ahead(seq);
  transfer_.settle();
}

void Connector::publish_ahead(int32_t seq) {
  Sequence& sequence = sequences_.at(seq);
  if (sequence.tainted || sequence.lost || sequence.bypass || sequence.parked > 0 || engine_.copy_pending()) return;
  const uint32_t rows = exact() ? sequence.exact_rows : sequence.rows();
  if (rows / engine_.facts.block_tokens <= sequence.published_rows / engine_.facts.block_tokens) return;
  const KeyspaceId keyspace = variants_.keyspace(sequence.variant);
  if (keyspace != KeyspaceId{}) {
    transfer_.publish(seq, keyspace, rows);
  } else {
    sequence.unstorable = engine_.facts.shape.window > 0;
  }
}

void Connector::recover() {
  // The engine may have written some of the refused rows into cells that count as free. Zeroing all is the one
  // thing that surely leaves no wrong row behind.
  engine_.counters.add(Counter::kImportsFailed);
  log_warning("the engine refused a restore half-way: its cache is cleared, live sequences are computed again");
  engine_.api.memory_clear(engine_.memory, true);
  for (uint32_t seq = 0; seq < sequences_.count(); ++seq)
    sequences_.lose(seq);
}

// Brings a parked sequence's rows back, or computes a lost one's again. False: there are no cells for them, and the
// sequence is lost (again).
bool Connector::revive(int32_t seq) {
  if (sequences_.at(seq).parked > 0) return revive_parked(seq);
  return !sequences_.at(seq).lost || rebuild(seq);
}

bool Connector::rebuild(int32_t seq) {
  Sequence& sequence = sequences_.at(seq);
  const std::vector<Token> tokens = std::move(sequence.tokens);
  const uint32_t exact_rows = sequence.exact_rows;
  const uint32_t tail_rows = sequence.tail_rows;
  sequence.tokens.clear();
  sequence.lost = false;
  // In the same batches as before where that matters: whole units, the tail in one, then row by row.
  const uint32_t batch = std::min(engine_.api.n_batch(engine_.context), engine_.api.n_ubatch(engine_.context));
  uint32_t done = 0;
  std::vector<Row> rows;
  while (done < tokens.size()) {
    auto end = static_cast<uint32_t>(std::min<size_t>(tokens.size(), done + batch));
    if (exact()) {
      end = done < exact_rows ? done + kExactUnit : done < tail_rows ? tail_rows : done + 1;
    }
    rows.clear();
    for (uint32_t i = done; i < end; ++i) {
      rows.push_back(Row{tokens[i], static_cast<int32_t>(i), seq, false, 0});
    }
    if (engine_.rebuild(rows) != 0) {
      engine_.api.memory_seq_rm(engine_.memory, seq, -1, -1);
      sequence.tokens = tokens;
      sequences_.lose(seq);
      break;
    }
    sequences_.append(seq, std::span(tokens).subspan(done, end - done));
    done = end;
  }
  sequence.exact_rows = exact_rows;
  sequence.tail_rows = tail_rows;
  return !sequence.lost;
}

}  // namespace rhizome
