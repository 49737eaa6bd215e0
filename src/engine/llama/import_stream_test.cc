// Memory that rots while rows are put in: a whole sequence is verified before any of it is used, and read again then.
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "engine/llama/linked_api.h"
#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

// Turns a bit of one block in the other client's memory just before the block is read for the second time.
class RottingClient final : public Client {
 public:
  explicit RottingClient(std::unique_ptr<Client> behind) : behind_(std::move(behind)) {}

  void rot(size_t block) { rotting_ = block; }
  bool has_rotted() const { return has_rotted_; }

  uint32_t block_tokens() const override { return behind_->block_tokens(); }
  Result<KeyspaceId> open(const Keyspace& keyspace, const BlockGeometry& geometry) override {
    return behind_->open(keyspace, geometry);
  }
  void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) override {
    read_.clear();
    behind_->lookup(keyspace, prompt, hit);
  }
  size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) override { return behind_->peek(keyspace, prompt); }
  size_t promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override {
    return behind_->promote(hit, prompt, first, end);
  }
  LoadSplit plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override {
    return behind_->plan(hit, prompt, first, end);
  }
  size_t load(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override {
    return behind_->load(hit, prompt, first, end);
  }
  Result<std::span<const std::byte>> read(Hit& hit, std::span<const Token> prompt, size_t i) override {
    if (const auto before = read_.find(i); before != read_.end() && i == rotting_ && !has_rotted_) {
      const_cast<std::byte&>(before->second[before->second.size() / 2]) ^= std::byte{16};
      has_rotted_ = true;
    }
    const auto payload = behind_->read(hit, prompt, i);
    if (payload) read_[i] = *payload;
    return payload;
  }
  Result<Draft> reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) override {
    return behind_->reserve(keyspace, tokens, first_block);
  }
  size_t commit(Draft draft) override { return behind_->commit(std::move(draft)); }
  void commit_later(Draft draft) override { behind_->commit_later(std::move(draft)); }
  Settled settle() override { return behind_->settle(); }
  Reason explain(KeyspaceId keyspace, std::span<const Token> prompt) override {
    return behind_->explain(keyspace, prompt);
  }
  bool is_shared() const override { return behind_->is_shared(); }
  Announcement announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                        uint64_t patience_ns) override {
    return behind_->announce(keyspace, prompt, first, end, patience_ns);
  }
  Arrival wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) override {
    return behind_->wait(keyspace, prompt, more_than, deadline_ns);
  }
  void observe_compute(uint64_t tokens, uint64_t before, double seconds) override {
    behind_->observe_compute(tokens, before, seconds);
  }
  void flush(uint64_t wait_ns) override { behind_->flush(wait_ns); }

 protected:
  // Drafts and claims are the other client's.
  void abort_draft(uint64_t) override {}
  void withdraw_claim(uint64_t, uint64_t) override {}

 private:
  const std::unique_ptr<Client> behind_;
  std::map<size_t, std::span<const std::byte>> read_;
  size_t rotting_ = SIZE_MAX;
  bool has_rotted_ = false;
};

class ImportStream : public testing::TestWithParam<size_t> {};

TEST_P(ImportStream, WhatRotsMeanwhileIsComputedAgain) {
  TestEngineOptions options;
  options.params = one_thread_params(2048, 4, false);
  const TestModel model(dense_model());
  const std::vector<Token> prompt = random_tokens(1, 200);
  auto counters = Counters::local();
  auto made = std::make_unique<RottingClient>(std::move(*make_embedded_client(
      {.memory_bytes = uint64_t{64} << 20, .block_tokens = 16, .verify = VerifyPolicy::kAlways}, *counters)));
  RottingClient& client = *made;
  TestCache cache(std::move(counters), std::move(made));
  const Logits wanted = TestEngine(model, cache, options).ask(0, prompt);
  client.rot(GetParam());
  TestEngine engine(model, cache, options);
  const Logits found = engine.ask(0, prompt);
  EXPECT_TRUE(client.has_rotted()) << "nothing was read twice: the test shows nothing";
  EXPECT_EQ(engine.last_restored(), static_cast<int32_t>(GetParam()) * 16) << "what came before it is good";
  EXPECT_EQ(best_token(found), best_token(wanted));
  EXPECT_LE(greatest_difference(found, wanted), 0.1F);
  EXPECT_EQ(cache.count(Counter::kChecksumFailures), 1U);
  EXPECT_EQ(cache.count(Counter::kImportsFailed), 0U);
  // And is stored again.
  engine.ask(1, prompt);
  EXPECT_GE(engine.last_restored(), 192);
}

INSTANTIATE_TEST_SUITE_P(Blocks, ImportStream, testing::Values(0, 1, 5, 11));

}  // namespace
}  // namespace rhizome
