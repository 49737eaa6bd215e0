// What makes rows different must keep them apart, however alike their tokens are: each case stores a prompt in one
// world and asks for it in another one, both ways, and the positive twin asks in the world that it was stored in.
#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

constexpr uint32_t kTokens = 100;
constexpr int32_t kStored = 96;

// A world to compute in. Everything that is not set is as it is in every other world.
struct World {
  std::string weights = "weights";
  uint32_t seed = 1;
  TestEngineOptions options;
  TestEngine::Request request;
  uint32_t lora = 0;  // seed, 0: none
  float scale = 1;
  bool adapters_known = true;
  bool rotation_disabled = false;
};

class ConnectorKeys : public testing::Test {
 protected:
  ConnectorKeys() { ::unsetenv("LLAMA_ATTN_ROT_DISABLE"); }
  ~ConnectorKeys() override { ::unsetenv("LLAMA_ATTN_ROT_DISABLE"); }

  // Asks for the prompt in `world`, with nothing but the cache left of what was before.
  Logits ask(const World& world, TestCache& cache, int32_t& restored) {
    RandomModel shape = dense_model();
    shape.seed = world.seed;
    const TestModel model(shape, world.weights);
    if (world.rotation_disabled) ::setenv("LLAMA_ATTN_ROT_DISABLE", "1", 1);
    TestEngine engine(model, cache, world.options);
    ::unsetenv("LLAMA_ATTN_ROT_DISABLE");
    if (world.lora != 0) use_lora(world, model, engine);
    const Logits logits = engine.ask(0, prompt_, world.request);
    restored = engine.last_restored();
    return logits;
  }

  void use_lora(const World& world, const TestModel& model, TestEngine& engine) {
    const std::string path = folder_.path("lora-" + std::to_string(world.lora));
    write_random_lora(path, model.shape, world.lora);
    llama_adapter_lora* adapter = llama_adapter_lora_init(model.model.get(), path.c_str());
    ASSERT_NE(adapter, nullptr);
    float scale = world.scale;
    ASSERT_EQ(llama_set_adapters_lora(engine.context.get(), &adapter, 1, &scale), 0);
    const auto content = digest_file(path, "", [] { return false; });
    ASSERT_TRUE(content);
    engine.connector->set_adapters({AdapterUse{*content, world.scale}}, world.adapters_known);
  }

  // Neither world may see the other's rows, and each sees its own.
  void expect_apart(const World& a, const World& b, bool other_answers = true) {
    for (const auto& [stored, asked] : {std::pair(a, b), std::pair(b, a)}) {
      TestCache cache;
      int32_t restored = -1;
      const Logits first = ask(stored, cache, restored);
      EXPECT_EQ(restored, 0);
      const Logits other = ask(asked, cache, restored);
      EXPECT_EQ(restored, 0) << "a hit across worlds";
      if (other_answers) {
        EXPECT_GT(greatest_difference(first, other), 0.01F) << "the worlds do not differ: what is tested?";
      }
      ask(stored, cache, restored);
      EXPECT_EQ(restored, kStored) << "the positive twin";
      ask(asked, cache, restored);
      EXPECT_EQ(restored, kStored) << "the other positive twin";
    }
  }

  void expect_together(const World& a, const World& b) {
    TestCache cache;
    int32_t restored = -1;
    ask(a, cache, restored);
    ask(b, cache, restored);
    EXPECT_EQ(restored, kStored);
  }

  const TemporaryFolder folder_;
  const std::vector<Token> prompt_ = random_tokens(1, kTokens);
};

TEST_F(ConnectorKeys, Weights) {
  World other;
  other.seed = 2;
  expect_apart({}, other);
  World only_the_digest;
  only_the_digest.weights = "others";
  expect_apart({}, only_the_digest, false);
  expect_together({}, {});
}

TEST_F(ConnectorKeys, LoraAndItsScale) {
  World a;
  a.lora = 1;
  World b;
  b.lora = 2;
  World half = a;
  half.scale = 0.5F;
  expect_apart({}, a);
  expect_apart(a, b);
  expect_apart(a, half);
  expect_together(half, half);
}

TEST_F(ConnectorKeys, AnAdapterThatIsNotKnownIsNeverStored) {
  World unknown;
  unknown.lora = 1;
  unknown.adapters_known = false;
  World known = unknown;
  known.adapters_known = true;
  TestCache cache;
  int32_t restored = -1;
  for (int i = 0; i < 2; ++i) {
    ask(unknown, cache, restored);
    EXPECT_EQ(restored, 0);
    EXPECT_EQ(cache.count(Counter::kBlocksExported), 0U);
  }
  ask(known, cache, restored);
  EXPECT_GT(cache.count(Counter::kBlocksExported), 0U);
  ask(unknown, cache, restored);
  EXPECT_EQ(restored, 0);
}

TEST_F(ConnectorKeys, RopeBase) {
  World other;
  other.options.params.rope_freq_base = 20000;
  expect_apart({}, other);
}

TEST_F(ConnectorKeys, RotationOfQuantisedRows) {
  World rotated;
  rotated.options.params.type_k = GGML_TYPE_Q8_0;
  rotated.options.params.type_v = GGML_TYPE_Q8_0;
  World straight = rotated;
  straight.rotation_disabled = true;
  expect_apart(rotated, straight, false);
}

TEST_F(ConnectorKeys, TypesOfTheCache) {
  World k8;
  k8.options.params.type_k = GGML_TYPE_Q8_0;
  World v8;
  v8.options.params.type_v = GGML_TYPE_Q8_0;
  expect_apart({}, k8, false);
  expect_apart({}, v8, false);
  expect_apart(k8, v8, false);
}

TEST_F(ConnectorKeys, FlashAttention) {
  World off;
  off.options.params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  expect_apart({}, off, false);
}

TEST_F(ConnectorKeys, TenantAndSalt) {
  World tenant;
  tenant.options.tenant = "a";
  World other_tenant;
  other_tenant.options.tenant = "b";
  World salt;
  salt.request.salt = "a";
  World other_salt;
  other_salt.request.salt = "b";
  expect_apart({}, tenant, false);
  expect_apart(tenant, other_tenant, false);
  expect_apart({}, salt, false);
  expect_apart(salt, other_salt, false);
  expect_apart(tenant, salt, false);
}

TEST_F(ConnectorKeys, ExactRowsAreNotMixedWithOthers) {
  World exact;
  exact.options.exact = true;
  TestCache cache;
  int32_t restored = -1;
  ask({}, cache, restored);
  ask(exact, cache, restored);
  EXPECT_EQ(restored, 0);
  ask(exact, cache, restored);
  EXPECT_EQ(restored, 64);
}

TEST_F(ConnectorKeys, SizesOfTheContextDoNotMatter) {
  World larger;
  larger.options.params.n_ctx = 4096;
  larger.options.params.n_seq_max = 9;
  larger.options.params.n_ubatch = 128;
  expect_together({}, larger);
  expect_together(larger, {});
}

// Inside one context: the adapters change while sequences live.
TEST_F(ConnectorKeys, LiveRowsOfAnotherAdapterAreNotUsed) {
  const TestModel model(dense_model());
  TestCache cache;
  TestEngine engine(model, cache);
  engine.ask(0, prompt_);
  engine.connector->set_adapters({AdapterUse{model.identity.digest(), 0.5F}}, true);
  engine.ask(0, prompt_);
  EXPECT_EQ(engine.last_restored(), 0) << "not even its own";
  engine.connector->set_adapters({AdapterUse{model.identity.digest(), 1}}, true);
  engine.ask(1, prompt_);
  EXPECT_EQ(engine.last_restored(), 0) << "neither shared nor from the store";
  engine.ask(2, prompt_);
  EXPECT_EQ(engine.last_restored(), static_cast<int32_t>(kTokens) - 1) << "the twin: shared under the same adapter";
  engine.ask(0, prompt_);
  EXPECT_EQ(engine.last_restored(), static_cast<int32_t>(kTokens) - 1)
      << "its own old rows went; sequence 1 has better";
  engine.connector->set_adapters({}, true);
  engine.ask(3, prompt_);
  EXPECT_EQ(engine.last_restored(), kStored) << "from the store: the live rows are all of the other kind now";
}

// A sequence that goes on under another adapter has rows of two kinds: nothing of it is stored from then on.
TEST_F(ConnectorKeys, RowsOfTwoKindsAreNotStored) {
  const TestModel model(dense_model());
  for (const bool changed : {false, true}) {
    TestCache cache;
    TestEngine engine(model, cache);
    engine.ask(0, head(prompt_, 50));
    if (changed) engine.connector->set_adapters({AdapterUse{model.identity.digest(), 1}}, true);
    EXPECT_EQ(engine.compute(0, prompt_, 50, true), 0);
    EXPECT_EQ(cache.count(Counter::kBlocksExported), changed ? 3U : 6U);
  }
}

}  // namespace
}  // namespace rhizome
