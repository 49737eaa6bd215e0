#include "engine/llama/engine_context.h"

#include "machine/clock.h"

namespace rhizome {
namespace {

// Fewer rows cost what one costs.
constexpr uint32_t kTellingRows = 32;

}  // namespace

int32_t EngineContext::timed_decode(const llama_batch& batch, Counter time) {
  const uint64_t begin_ns = monotonic_now_ns();
  const uint64_t cpu_begin_ns = thread_cpu_now_ns();
  const int32_t status = api.decode(context, batch);
  if (status != -1) copy_pending_ = false;  // -1: the batch was refused before anything was done
  engine_cpu_ns_ += thread_cpu_now_ns() - cpu_begin_ns;
  last_decode_ns_ = monotonic_now_ns() - begin_ns;
  counters.add(time, last_decode_ns_);
  return status;
}

int32_t EngineContext::decode(const llama_batch& batch, uint32_t generated) {
  const auto rows = static_cast<uint32_t>(batch.n_tokens);
  const int32_t status =
      timed_decode(batch, generated == rows ? Counter::kComputeTimeGenerate : Counter::kComputeTimePrompt);
  if (status == 0) {
    counters.add(Counter::kTokensComputedPrompt, rows - generated);
    counters.add(Counter::kTokensComputedGenerated, generated);
    if (generated == 0) observe(batch);
  }
  return status;
}

// What it cost to compute part of a prompt; of a batch of several sequences nobody could say which cost what.
void EngineContext::observe(const llama_batch& batch) {
  const auto rows = static_cast<uint32_t>(batch.n_tokens);
  if (rows == 0 || batch.pos == nullptr || batch.seq_id == nullptr) return;
  if (batch.seq_id[0][0] != batch.seq_id[rows - 1][0] || batch.pos[0] < 0) return;
  const double seconds = static_cast<double>(last_decode_ns_) * 1e-9;
  client.observe_compute(rows, static_cast<uint64_t>(batch.pos[0]), seconds);
  if (rows < kTellingRows) return;
  const double now = seconds / rows;
  seconds_per_token_ = seconds_per_token_ == 0 ? now : (seconds_per_token_ + now) / 2;
}

int32_t EngineContext::decode(std::span<const Row> rows, uint32_t generated) {
  return decode(buffer_.fill(rows), generated);
}

int32_t EngineContext::rebuild(std::span<const Row> rows) {
  const int32_t status = timed_decode(buffer_.fill(rows), Counter::kComputeTimePrompt);
  if (status == 0) counters.add(Counter::kTokensComputedRebuilt, rows.size());
  return status;
}

}  // namespace rhizome
