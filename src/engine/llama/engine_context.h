// One engine context and what the parts of the connector share about it.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <cstdint>
#include <span>

#include "client/client.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/llama_api.h"
#include "engine/llama/row_batch.h"
#include "telemetry/counters.h"

namespace rhizome {

class EngineContext {
 public:
  EngineContext(const LlamaApi& table, llama_context* made, ContextFacts gathered, Client& blocks, Counters& page)
      : api(table),
        context(made),
        memory(table.get_memory(made)),
        facts(std::move(gathered)),
        client(blocks),
        counters(page) {}

  // The real forward pass: counts its rows (when it succeeds) and its time. Returns what llama_decode returned.
  // `generated` of the rows continue an answer; if all do, its time counts as generating.
  int32_t decode(const llama_batch& batch, uint32_t generated);
  int32_t decode(std::span<const Row> rows, uint32_t generated);
  // The same for rows that were there before and were lost.
  int32_t rebuild(std::span<const Row> rows);

  // Rows were copied between sequences with a buffer each: the engine moves them at its next forward pass, over
  // whatever the target's buffer holds by then.
  void copied_between_streams() { copy_pending_ = true; }
  bool copy_pending() const { return copy_pending_; }

  // What a token of a prompt has lately cost; 0: none of some length was computed yet.
  double seconds_per_token() const { return seconds_per_token_; }

  // CPU time of this thread inside the engine's forward pass so far.
  uint64_t engine_cpu_ns() const { return engine_cpu_ns_; }

  const LlamaApi& api;
  llama_context* const context;
  llama_memory_t const memory;
  const ContextFacts facts;
  Client& client;
  Counters& counters;

 private:
  int32_t timed_decode(const llama_batch& batch, Counter time);
  void observe(const llama_batch& batch);

  BatchBuffer buffer_;
  bool copy_pending_ = false;
  uint64_t engine_cpu_ns_ = 0;
  uint64_t last_decode_ns_ = 0;
  double seconds_per_token_ = 0;
};

}  // namespace rhizome
