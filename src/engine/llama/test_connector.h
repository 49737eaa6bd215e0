// For tests: a program with engine slots as llama-server has them, served by a connector on a real cache.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/client.h"
#include "engine/llama/connector.h"
#include "engine/llama/test_models.h"
#include "telemetry/counters.h"

namespace rhizome {

using Logits = std::vector<float>;

// Bit for bit, so that a NaN is equal to itself and 0 is not -0.
bool bit_equal(const Logits& a, const Logits& b);
float greatest_difference(const Logits& a, const Logits& b);
Token best_token(const Logits& logits);

struct Answer {
  std::vector<Token> tokens;   // greedy
  std::vector<Logits> logits;  // that each of them was chosen by
};
void expect_bit_equal(const Answer& a, const Answer& b);

// A cache, and the counters of all who use it.
class TestCache {
 public:
  explicit TestCache(uint64_t memory_bytes = uint64_t{64} << 20, uint32_t block_tokens = 16);
  // Whose client stands in front of another one.
  TestCache(std::unique_ptr<Counters> counters_of_both, std::unique_ptr<Client> in_front)
      : counters(std::move(counters_of_both)), client(std::move(in_front)) {}

  uint64_t count(Counter counter) const { return counters->get(counter); }
  // Rows that the engine's forward pass has computed, of all kinds but the probe's.
  uint64_t computed() const;

  const std::unique_ptr<Counters> counters;
  const std::unique_ptr<Client> client;
};

// A model whose digest is known.
struct TestModel {
  explicit TestModel(const RandomModel& from, std::string_view weights = "weights");

  const RandomModel shape;
  const ModelPtr model;
  const ModelIdentity identity;
};

struct TestEngineOptions {
  llama_context_params params = one_thread_params(1024, 4, true);
  bool exact = false;
  bool restore = true;
  std::string tenant;
  uint64_t store_bytes = UINT64_MAX;
};

class TestEngine {
 public:
  TestEngine(const TestModel& model, TestCache& cache, const TestEngineOptions& options = {});
  TestEngine(const TestModel& model, const ModelIdentity& identity, TestCache& cache, const TestEngineOptions& options);

  struct Request {
    std::string salt;
    uint32_t flags = 0;
    uint32_t chunk = 2048;  // the prompt is given to decode in pieces of so many tokens
    bool hook = true;
  };

  // What a server does with a prompt: keeps what the slot has of it, asks the hook before each piece, computes the
  // rest. Gives the logits behind the last token. Checks that the hook says the truth about the rows.
  Logits ask(int32_t seq, std::span<const Token> prompt, const Request& request);
  Logits ask(int32_t seq, std::span<const Token> prompt) { return ask(seq, prompt, Request{}); }
  // And generates `count` tokens behind it.
  Answer converse(int32_t seq, std::span<const Token> prompt, size_t count, const Request& request);
  Answer converse(int32_t seq, std::span<const Token> prompt, size_t count) {
    return converse(seq, prompt, count, Request{});
  }
  // How many tokens the sequence had, as the hook said at the beginning of the last ask().
  int32_t last_restored() const { return last_restored_; }
  // The slot is given to somebody else: its rows go.
  void empty(int32_t seq);

  // The steps of ask(). keep() is what the server believes to have of the prompt.
  int32_t keep(int32_t seq, std::span<const Token> prompt);
  int32_t restore(int32_t seq, std::span<const Token> prompt, int32_t have, const Request& request);
  int32_t restore(int32_t seq, std::span<const Token> prompt, int32_t have) {
    return restore(seq, prompt, have, Request{});
  }
  // The prompt's rows from `from` on, in one batch.
  int32_t compute(int32_t seq, std::span<const Token> prompt, int32_t from, bool output);
  int32_t decode(std::span<const Row> rows);
  Logits logits(int32_t index = -1);
  // One generated token is fed back.
  Logits step(int32_t seq, Token token);

  // Whether the engine itself has rows 0 to count - 1 of the sequence (the last of them, if there is a window).
  bool has_rows(int32_t seq, int32_t count) const;

  LlamaApi api;  // what the connector calls: a test may put a function of its own in place of one
  const ContextPtr context;
  const std::unique_ptr<Connector> connector;

 private:
  ContextPlan plan_;
  uint32_t window_;
  size_t vocabulary_;
  std::vector<std::vector<Token>> slots_;  // what the server believes that each of them holds
  BatchBuffer buffer_;
  int32_t last_restored_ = 0;
};

// Rows of one sequence at positions from `first` on, the last of them with an output if `output`.
std::vector<Row> rows_at(int32_t seq, int32_t first, std::span<const Token> tokens, bool output);

// The logits behind a prompt that a bare engine computes in batches that end at `cuts` (and at the end).
Logits bare_logits(const TestModel& model, const llama_context_params& params, std::span<const Token> prompt,
                   const std::vector<uint32_t>& cuts = {});

// The keyspace that was opened first: all tests that ask for it open one.
inline constexpr KeyspaceId kOnlyKeyspace{1};

// Turns one bit in the stored bytes of a block, as a fault of the memory would.
void damage_block(Client& client, KeyspaceId keyspace, std::span<const Token> prompt, size_t block);

}  // namespace rhizome
