#include "engine/llama/test_connector.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "contract/check.h"
#include "engine/llama/linked_api.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

Digest digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

// Sequences and outputs as the program asked for, but made as the plan says.
ContextPlan plan_of(const LlamaApi& api, const TestModel& model, const TestEngineOptions& options) {
  ContextPlan plan = plan_context(api, model.model.get(), options.params, options.exact);
  RHIZOME_CHECK(plan.attach);
  return plan;
}

std::unique_ptr<Connector> attach(const LlamaApi& api, llama_context* context, const ContextPlan& plan,
                                  const ModelIdentity& identity, TestCache& cache, const TestEngineOptions& options) {
  set_log_level(LogLevel::kError);  // the tests provoke every warning there is
  ConnectorOptions connector_options;
  connector_options.restore = options.restore;
  connector_options.tenant = options.tenant;
  connector_options.store_bytes = options.store_bytes;
  auto connector = Connector::attach(api, context, plan, identity, *cache.client, *cache.counters, connector_options);
  RHIZOME_CHECK(connector);
  return std::move(*connector);
}

}  // namespace

bool bit_equal(const Logits& a, const Logits& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

float greatest_difference(const Logits& a, const Logits& b) {
  float greatest = a.size() == b.size() && !a.empty() ? 0 : HUGE_VALF;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    if (!(difference <= greatest)) greatest = std::isnan(difference) ? HUGE_VALF : difference;
  }
  return greatest;
}

Token best_token(const Logits& logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void expect_bit_equal(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.logits.size(), b.logits.size());
  for (size_t i = 0; i < a.logits.size(); ++i) {
    ASSERT_TRUE(bit_equal(a.logits[i], b.logits[i]))
        << "token " << i << " differs by " << greatest_difference(a.logits[i], b.logits[i]);
  }
}

TestCache::TestCache(uint64_t memory_bytes, uint32_t block_tokens)
    : counters(Counters::local()),
      client(std::move(*make_embedded_client(
          {.memory_bytes = memory_bytes, .block_tokens = block_tokens, .verify = VerifyPolicy::kAlways}, *counters))) {}

uint64_t TestCache::computed() const {
  return count(Counter::kTokensComputedPrompt) + count(Counter::kTokensComputedGenerated) +
         count(Counter::kTokensComputedRebuilt);
}

TestModel::TestModel(const RandomModel& from, std::string_view weights)
    : shape(from),
      model(make_random_model(from)),
      identity("model", digest_of(std::string(weights) + std::to_string(from.seed)), "") {}

TestEngine::TestEngine(const TestModel& model, TestCache& cache, const TestEngineOptions& options)
    : TestEngine(model, model.identity, cache, options) {}

TestEngine::TestEngine(const TestModel& model, const ModelIdentity& identity, TestCache& cache,
                       const TestEngineOptions& options)
    : api(linked_llama_api()),
      context(make_context(model.model.get(), plan_of(api, model, options).params)),
      connector(attach(api, context.get(), plan_of(api, model, options), identity, cache, options)),
      window_(model.shape.window),
      vocabulary_(model.shape.vocabulary),
      slots_(std::max<uint32_t>(options.params.n_seq_max, 1)) {}

int32_t TestEngine::keep(int32_t seq, std::span<const Token> prompt) {
  auto& slot = slots_[static_cast<size_t>(seq)];
  auto have = static_cast<int32_t>(std::min<size_t>(common_prefix(slot, prompt), prompt.size() - 1));
  // llama-server starts anew when the window has passed what the shorter prefix needs.
  const int32_t needed = std::max(0, have - static_cast<int32_t>(window_));
  if (window_ > 0 && connector->position_min(seq) > needed) have = 0;
  EXPECT_TRUE(connector->remove(seq, have, -1));
  slot.resize(static_cast<size_t>(have));
  return have;
}

int32_t TestEngine::restore(int32_t seq, std::span<const Token> prompt, int32_t have, const Request& request) {
  const int32_t answer = connector->restore(seq, prompt, have, request.salt, request.flags);
  if (answer >= 0) slots_[static_cast<size_t>(seq)].assign(prompt.begin(), prompt.begin() + answer);
  return answer;
}

bool TestEngine::has_rows(int32_t seq, int32_t count) const {
  llama_memory_t memory = llama_get_memory(context.get());
  const int32_t first = llama_memory_seq_pos_min(memory, seq);
  const int32_t last = llama_memory_seq_pos_max(memory, seq);
  if (count == 0) return last == -1;
  return last == count - 1 && first >= 0 &&
         (window_ > 0 ? first <= std::max(0, count - static_cast<int32_t>(window_)) : first == 0);
}

Logits TestEngine::ask(int32_t seq, std::span<const Token> prompt, const Request& request) {
  int32_t have = keep(seq, prompt);
  last_restored_ = request.hook ? -1 : have;
  while (have < static_cast<int32_t>(prompt.size())) {
    if (request.hook) {
      have = restore(seq, prompt, have, request);
      EXPECT_GE(have, 0) << "nobody else is served";
      if (have < 0) return {};
      EXPECT_LT(have, static_cast<int32_t>(prompt.size())) << "one token must be left to compute";
      if (last_restored_ < 0) {
        EXPECT_TRUE(has_rows(seq, have)) << have << " tokens are said to be there";
        last_restored_ = have;
      }
    }
    const size_t end = std::min(prompt.size(), static_cast<size_t>(have) + request.chunk);
    const int32_t status = compute(seq, prompt.first(end), have, end == prompt.size());
    EXPECT_EQ(status, 0);
    if (status != 0) return {};
    have = static_cast<int32_t>(end);
  }
  return logits();
}

Answer TestEngine::converse(int32_t seq, std::span<const Token> prompt, size_t count, const Request& request) {
  Answer answer;
  answer.logits.push_back(ask(seq, prompt, request));
  answer.tokens.push_back(best_token(answer.logits.back()));
  while (answer.tokens.size() < count) {
    answer.logits.push_back(step(seq, answer.tokens.back()));
    answer.tokens.push_back(best_token(answer.logits.back()));
  }
  return answer;
}

void TestEngine::empty(int32_t seq) {
  EXPECT_TRUE(connector->remove(seq, -1, -1));
  slots_[static_cast<size_t>(seq)].clear();
}

int32_t TestEngine::compute(int32_t seq, std::span<const Token> prompt, int32_t from, bool output) {
  const auto part = prompt.subspan(static_cast<size_t>(from));
  const int32_t status = decode(rows_at(seq, from, part, output));
  if (status == 0) slots_[static_cast<size_t>(seq)].assign(prompt.begin(), prompt.end());
  return status;
}

int32_t TestEngine::decode(std::span<const Row> rows) {
  return connector->decode(buffer_.fill(rows));
}

Logits TestEngine::logits(int32_t index) {
  const float* values = connector->logits_at(index);
  return values == nullptr ? Logits{} : Logits(values, values + vocabulary_);
}

Logits TestEngine::step(int32_t seq, Token token) {
  auto& slot = slots_[static_cast<size_t>(seq)];
  EXPECT_EQ(decode(rows_at(seq, static_cast<int32_t>(slot.size()), std::span(&token, 1), true)), 0);
  slot.push_back(token);
  return logits();
}

std::vector<Row> rows_at(int32_t seq, int32_t first, std::span<const Token> tokens, bool output) {
  std::vector<Row> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(Row{tokens[i], first + static_cast<int32_t>(i), seq, false, static_cast<int32_t>(i)});
  }
  if (!rows.empty()) rows.back().output = output;
  return rows;
}

Logits bare_logits(const TestModel& model, const llama_context_params& params, std::span<const Token> prompt,
                   const std::vector<uint32_t>& cuts) {
  const ContextPtr context = make_context(model.model.get(), params);
  BatchBuffer buffer;
  size_t begin = 0;
  std::vector<uint32_t> ends = cuts;
  ends.push_back(static_cast<uint32_t>(prompt.size()));
  for (const uint32_t end : ends) {
    const auto part = prompt.subspan(begin, end - begin);
    const auto rows = rows_at(0, static_cast<int32_t>(begin), part, end == prompt.size());
    RHIZOME_CHECK(llama_decode(context.get(), buffer.fill(rows)) == 0);
    begin = end;
  }
  const float* values = llama_get_logits_ith(context.get(), -1);
  return {values, values + model.shape.vocabulary};
}

void damage_block(Client& client, KeyspaceId keyspace, std::span<const Token> prompt, size_t block) {
  Hit hit;
  client.lookup(keyspace, prompt, hit);
  RHIZOME_CHECK(block < hit.blocks_count());
  const auto payload = client.read(hit, prompt, block);
  RHIZOME_CHECK(payload);
  const_cast<std::byte&>((*payload)[payload->size() / 2]) ^= std::byte{4};
}

}  // namespace rhizome
