#include "engine/llama/fingerprint.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/llama/linked_api.h"
#include "engine/llama/test_models.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 16;

Digest digest_of(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

// Everything that a keyspace is made of, to change one thing at a time.
struct Parts {
  RandomModel model = dense_model();
  llama_context_params params = one_thread_params(512, 2, true);
  bool exact = false;
  std::string tenant;
  uint32_t block_tokens = kBlock;
  std::string weights = "weights";
  std::string overrides;
  Variant variant;
};

// Models of the shapes that were asked for.
std::map<std::tuple<std::string, uint32_t, uint32_t, uint32_t>, ModelPtr>& models() {
  static std::map<std::tuple<std::string, uint32_t, uint32_t, uint32_t>, ModelPtr> all;
  return all;
}

class Fingerprint : public testing::Test {
 protected:
  static void TearDownTestSuite() { models().clear(); }
};

llama_model* model_of(const RandomModel& shape) {
  ModelPtr& model = models()[{shape.architecture, shape.layers, shape.window, shape.original_context}];
  if (!model) model = make_random_model(shape);
  return model.get();
}

Result<Keyspace> keyspace_of(const Parts& parts) {
  const LlamaApi api = linked_llama_api();
  llama_model* model = model_of(parts.model);
  const ContextPlan plan = plan_context(api, model, parts.params, parts.exact);
  EXPECT_TRUE(plan.attach) << plan.why_not;
  const ContextPtr context = make_context(model, plan.params);
  const auto shape = probe_context(api, context.get(), plan);
  if (!shape) return fail(shape.error());
  const ContextFacts facts = gather_facts(api, context.get(), plan, *shape, parts.tenant, parts.block_tokens);
  return make_keyspace(ModelIdentity("m", digest_of(parts.weights), parts.overrides), facts, parts.variant);
}

using Change = std::function<void(Parts&)>;

// The change must give another keyspace, and `tag` must be the first thing that differs.
void expect_differs(const Change& change, KeyspaceTag tag, const Parts& base = {}) {
  Parts parts = base;
  const auto before = keyspace_of(parts);
  change(parts);
  const auto after = keyspace_of(parts);
  ASSERT_TRUE(before && after);
  EXPECT_FALSE(*before == *after);
  KeyspaceTag found{};
  ASSERT_TRUE(Keyspace::first_difference(*before, *after, found)) << keyspace_tag_name(tag);
  EXPECT_EQ(keyspace_tag_name(found), keyspace_tag_name(tag));
}

// The change must not matter: what was stored before it may be used after it.
void expect_same(const Change& change, const Parts& base = {}) {
  Parts parts = base;
  const auto before = keyspace_of(parts);
  change(parts);
  const auto after = keyspace_of(parts);
  ASSERT_TRUE(before && after);
  EXPECT_TRUE(*before == *after);
}

Parts exact_parts() {
  Parts parts;
  parts.exact = true;
  parts.variant.threads = 1;
  parts.variant.threads_batch = 1;
  return parts;
}

TEST_F(Fingerprint, IsTheSameForTheSame) {
  expect_same([](Parts&) {});
  expect_same([](Parts&) {}, exact_parts());
}

TEST_F(Fingerprint, HasTheWeightsAndWhatOverridesThem) {
  expect_differs([](Parts& p) { p.weights = "others"; }, KeyspaceTag::kWeights);
  expect_differs([](Parts& p) { p.overrides = "x"; }, KeyspaceTag::kOverrides);
}

TEST_F(Fingerprint, HasTheLayout) {
  expect_differs([](Parts& p) { p.params.type_k = GGML_TYPE_Q8_0; }, KeyspaceTag::kLayout);
  expect_differs([](Parts& p) { p.params.type_v = GGML_TYPE_Q8_0; }, KeyspaceTag::kLayout);
  expect_differs([](Parts& p) { p.params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED; }, KeyspaceTag::kLayout);
  expect_differs([](Parts& p) { p.block_tokens = 32; }, KeyspaceTag::kLayout);
  expect_differs([](Parts& p) { p.model.layers = 3; }, KeyspaceTag::kLayout);
}

TEST_F(Fingerprint, HasTheWindow) {
  Parts base;
  base.model = window_model(64);
  expect_differs([](Parts& p) { p.model = window_model(96); }, KeyspaceTag::kMemoryClass, base);
  // The width of the window is known from the weights, too; here the weights are said to be the same.
  expect_differs([](Parts& p) { p.model = window_model(64); }, KeyspaceTag::kLayout);
  expect_same([](Parts& p) { p.params.swa_full = true; }, base);
}

TEST_F(Fingerprint, HasTheRopeSettings) {
  const Change changes[] = {[](Parts& p) { p.params.rope_freq_base = 20000; },
                            [](Parts& p) { p.params.rope_freq_scale = 0.5F; },
                            [](Parts& p) { p.params.rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_YARN; },
                            [](Parts& p) { p.params.yarn_ext_factor = 0.5F; },
                            [](Parts& p) { p.params.yarn_attn_factor = 0.5F; },
                            [](Parts& p) { p.params.yarn_beta_fast = 16; },
                            [](Parts& p) { p.params.yarn_beta_slow = 2; },
                            [](Parts& p) { p.params.yarn_orig_ctx = 4096; }};
  for (const Change& change : changes)
    expect_differs(change, KeyspaceTag::kRope);
}

TEST_F(Fingerprint, HasTheChoiceOfRopeFactorsButNotTheContextSize) {
  // Models with two tables of factors take the long one when the context is longer than the original one.
  Parts base;
  base.model.original_context = 1024;
  expect_same([](Parts& p) { p.params.n_ctx = 1024; }, base);
  expect_differs([](Parts& p) { p.params.n_ctx = 2048; }, KeyspaceTag::kRope, base);
  Parts by_training;  // no original context: the one that it was trained with, 8,192
  expect_same([](Parts& p) { p.params.n_ctx = 8192; }, by_training);
  expect_differs([](Parts& p) { p.params.n_ctx = 8192 + 256; }, KeyspaceTag::kRope, by_training);
}

TEST_F(Fingerprint, HasNothingOfSizesAndSequences) {
  expect_same([](Parts& p) { p.params.n_ctx = 2048; });
  expect_same([](Parts& p) { p.params.n_seq_max = 7; });
  expect_same([](Parts& p) { p.params.kv_unified = false; });
  expect_same([](Parts& p) { p.params.n_batch = p.params.n_ubatch = 64; });
  expect_same([](Parts& p) { p.variant.threads = 7; });
  expect_same([](Parts& p) { p.variant.threads_batch = 7; });
}

TEST_F(Fingerprint, HasTheRotationOfQuantisedRows) {
  const Change disable = [](Parts&) { ::setenv("LLAMA_ATTN_ROT_DISABLE", "1", 1); };
  Parts base;
  base.params.type_k = GGML_TYPE_Q8_0;
  base.params.type_v = GGML_TYPE_Q8_0;
  ::unsetenv("LLAMA_ATTN_ROT_DISABLE");
  expect_differs(disable, KeyspaceTag::kRotation, base);
  ::setenv("LLAMA_ATTN_ROT_DISABLE", "0", 1);  // says what is the case anyway
  const auto zero = keyspace_of(base);
  ::unsetenv("LLAMA_ATTN_ROT_DISABLE");
  const auto unset = keyspace_of(base);
  ASSERT_TRUE(zero && unset);
  EXPECT_TRUE(*zero == *unset);
}

TEST_F(Fingerprint, HasCausalityTenantAndSalt) {
  expect_differs([](Parts& p) { p.variant.causal = false; }, KeyspaceTag::kAttention);
  expect_differs([](Parts& p) { p.tenant = "a"; }, KeyspaceTag::kTenant);
  expect_differs([](Parts& p) { p.variant.salt = "a"; }, KeyspaceTag::kSalt);
  Parts tenant;
  tenant.tenant = "a";
  Parts salt;
  salt.variant.salt = "a";
  EXPECT_FALSE(*keyspace_of(tenant) == *keyspace_of(salt));
  expect_differs([](Parts& p) { p.tenant = "b"; }, KeyspaceTag::kTenant, tenant);
  expect_differs([](Parts& p) { p.variant.salt = std::string("a\0", 2); }, KeyspaceTag::kSalt, salt);
}

TEST_F(Fingerprint, HasTheAdaptersTheirOrderAndTheirScale) {
  const AdapterUse a{digest_of("a"), 1};
  const AdapterUse b{digest_of("b"), 1};
  const AdapterUse a_half{digest_of("a"), 0.5F};
  const std::vector<std::vector<AdapterUse>> uses{{}, {a}, {b}, {a_half}, {a, b}, {b, a}, {a, a}};
  std::vector<Keyspace> keyspaces;
  for (const auto& adapters : uses) {
    Parts parts;
    parts.variant.adapters = adapters;
    const auto keyspace = keyspace_of(parts);
    ASSERT_TRUE(keyspace);
    for (const Keyspace& other : keyspaces) {
      KeyspaceTag found{};
      ASSERT_TRUE(Keyspace::first_difference(*keyspace, other, found));
      EXPECT_EQ(found, KeyspaceTag::kAdapters);
    }
    keyspaces.push_back(*keyspace);
  }
  expect_same([](Parts&) {},
              [&] {
                Parts parts;
                parts.variant.adapters = {a, b};
                return parts;
              }());
}

TEST_F(Fingerprint, HasTheControlVector) {
  const float values[] = {1, 2, 3, 4};
  const float others[] = {1, 2, 3, 5};
  const std::string encoding = control_vector_encoding(values, 4, 2, 1, 2);
  EXPECT_EQ(control_vector_encoding(values, 4, 2, 1, 2), encoding);
  EXPECT_NE(control_vector_encoding(others, 4, 2, 1, 2), encoding);
  EXPECT_NE(control_vector_encoding(values, 3, 2, 1, 2), encoding);
  EXPECT_NE(control_vector_encoding(values, 4, 4, 1, 2), encoding);
  EXPECT_NE(control_vector_encoding(values, 4, 2, 0, 2), encoding);
  EXPECT_NE(control_vector_encoding(values, 4, 2, 1, 3), encoding);
  EXPECT_EQ(control_vector_encoding(nullptr, 4, 2, 1, 2), "");
  expect_differs([&encoding](Parts& p) { p.variant.control_vector = encoding; }, KeyspaceTag::kControlVector);
}

TEST_F(Fingerprint, HasWhatTheLastBitsDependOnInExactMode) {
  expect_differs([](Parts& p) { p = exact_parts(); }, KeyspaceTag::kNumerics);
  expect_differs([](Parts& p) { p.variant.threads = 2; }, KeyspaceTag::kNumerics, exact_parts());
  expect_differs([](Parts& p) { p.variant.threads_batch = 2; }, KeyspaceTag::kNumerics, exact_parts());
  // Automatic and enabled flash attention keep V alike, but may compute differently.
  expect_differs([](Parts& p) { p.params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO; }, KeyspaceTag::kNumerics,
                 exact_parts());
  expect_same([](Parts& p) { p.params.n_ctx = 2048; }, exact_parts());
  // Rows are computed in batches of 64, unless the engine cuts them smaller.
  expect_same([](Parts& p) { p.params.n_ubatch = 64; }, exact_parts());
  expect_differs([](Parts& p) { p.params.n_ubatch = 32; }, KeyspaceTag::kNumerics, exact_parts());
}

TEST_F(Fingerprint, IsNotMadeOfWhatIsNotKnown) {
  Parts parts;
  ASSERT_TRUE(keyspace_of(parts));
  parts.variant.known = false;
  ASSERT_FALSE(keyspace_of(parts));
  EXPECT_EQ(keyspace_of(parts).error().code, Code::kFailedPrecondition);

  const LlamaApi api = linked_llama_api();
  const ModelPtr model = make_random_model(dense_model());
  const ContextPlan plan = plan_context(api, model.get(), parts.params, false);
  const ContextPtr context = make_context(model.get(), plan.params);
  const auto shape = probe_context(api, context.get(), plan);
  ASSERT_TRUE(shape);
  const ContextFacts facts = gather_facts(api, context.get(), plan, *shape, "", kBlock);
  EXPECT_TRUE(make_keyspace(ModelIdentity("m", Digest{}, ""), facts, Variant{}));
  const auto unknown = make_keyspace(ModelIdentity({}, "", ""), facts, Variant{});
  ASSERT_FALSE(unknown) << "weights without a digest are not weights with an empty one";
  EXPECT_EQ(unknown.error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace rhizome
