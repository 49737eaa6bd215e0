#include "engine/llama/probe.h"

#include <string_view>

#include <gtest/gtest.h>

#include "engine/llama/linked_api.h"
#include "engine/llama/test_models.h"

namespace rhizome {
namespace {

class Probe : public testing::Test {
 protected:
  ContextPlan plan(const llama_context_params& params, bool exact = false) const {
    return plan_context(api_, model_.get(), params, exact);
  }

  void expect_passed_through(const llama_context_params& params, std::string_view why) {
    for (const bool exact : {false, true}) {
      const ContextPlan found = plan(params, exact);
      EXPECT_FALSE(found.attach);
      EXPECT_NE(std::string_view(found.why_not).find(why), std::string_view::npos) << found.why_not;
      EXPECT_EQ(found.params.n_seq_max, params.n_seq_max) << "made as the program asked";
      EXPECT_EQ(found.params.kv_unified, params.kv_unified);
      EXPECT_EQ(found.params.swa_full, params.swa_full);
    }
  }

  const LlamaApi api_ = linked_llama_api();
  const ModelPtr model_ = make_random_model(dense_model());
  const llama_context_params params_ = one_thread_params(512, 3, true);
};

TEST_F(Probe, TakesOneMoreSequenceOfAUnifiedCache) {
  llama_context_params params = params_;
  params.n_outputs_max = 8;
  const ContextPlan found = plan(params);
  EXPECT_TRUE(found.attach);
  EXPECT_TRUE(found.unified);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.sequences_count, 3U);
  EXPECT_EQ(found.scratch, 3);
  EXPECT_EQ(found.params.n_seq_max, 4U);
  EXPECT_EQ(found.params.n_outputs_max, 9U);
}

TEST_F(Probe, LeavesACacheOfSeveralStreamsAsItIs) {
  llama_context_params params = params_;
  params.kv_unified = false;
  const ContextPlan found = plan(params);
  EXPECT_TRUE(found.attach);
  EXPECT_FALSE(found.unified);
  EXPECT_EQ(found.scratch, -1);
  EXPECT_EQ(found.params.n_seq_max, 3U);
  // With one sequence there is no difference, and a unified cache can do more.
  params.n_seq_max = 1;
  EXPECT_TRUE(plan(params).unified);
}

TEST_F(Probe, ExactModeWantsStreamsAndTheWholeWindow) {
  const ContextPlan found = plan(params_, true);
  EXPECT_TRUE(found.attach);
  EXPECT_TRUE(found.exact);
  EXPECT_FALSE(found.unified);
  EXPECT_FALSE(found.params.kv_unified);
  EXPECT_TRUE(found.params.swa_full);
  EXPECT_EQ(found.params.n_seq_max, 3U);
}

TEST_F(Probe, PassesThroughWhatIsNotTextThatGoesOn) {
  llama_context_params params = params_;
  params.embeddings = true;
  expect_passed_through(params, "embeddings");
  params = params_;
  params.attention_type = LLAMA_ATTENTION_TYPE_NON_CAUSAL;
  expect_passed_through(params, "causal");
  params = params_;
  params.pooling_type = LLAMA_POOLING_TYPE_MEAN;
  expect_passed_through(params, "pools");
}

TEST_F(Probe, PassesThroughWithoutAnUnusedSequence) {
  llama_context_params params = params_;
  params.n_seq_max = 256;
  const ContextPlan found = plan(params);
  EXPECT_FALSE(found.attach);
  EXPECT_NE(std::string_view(found.why_not).find("sequence"), std::string_view::npos);
  params.n_seq_max = 255;
  EXPECT_TRUE(plan(params).attach);
}

TEST_F(Probe, PassesThroughARecurrentModel) {
  const ModelPtr recurrent = make_random_model(recurrent_model());
  const ContextPlan found = plan_context(api_, recurrent.get(), params_, false);
  EXPECT_FALSE(found.attach);
  EXPECT_NE(std::string_view(found.why_not).find("no_snapshot"), std::string_view::npos) << found.why_not;
  // If one were attached all the same, the probe would find out.
  ContextPlan forced = plan(params_);
  forced.params = params_;
  forced.params.n_seq_max = 4;
  const ContextPtr context = make_context(recurrent.get(), forced.params);
  const auto shape = probe_context(api_, context.get(), forced);
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, Code::kUnimplemented);
}

TEST_F(Probe, LearnsWhatTheContextHolds) {
  const ModelPtr windowed = make_random_model(window_model(48));
  for (const bool unified : {true, false}) {
    llama_context_params params = params_;
    params.n_ctx = 3 * 1024;
    params.kv_unified = unified;
    params.n_ubatch = 64;
    for (llama_model* model : {model_.get(), windowed.get()}) {
      const ContextPlan found = plan_context(api_, model, params, false);
      const ContextPtr context = make_context(model, found.params);
      const auto shape = probe_context(api_, context.get(), found);
      ASSERT_TRUE(shape);
      EXPECT_EQ(shape->blob.streams, unified ? 1U : 3U);
      EXPECT_EQ(shape->blob.kv_heads, 1U);
      EXPECT_EQ(shape->window, model == windowed.get() ? 48U : 0U);
      EXPECT_EQ(shape->cells, unified ? 3072U : 1024U);
      if (model == windowed.get()) {
        EXPECT_EQ(shape->window_cells, unified ? 4 * 48U + 64 : 48U + 64);
      }
      // It leaves nothing behind.
      llama_memory_t memory = llama_get_memory(context.get());
      for (llama_seq_id seq = 0; seq < static_cast<llama_seq_id>(llama_n_seq_max(context.get())); ++seq) {
        EXPECT_EQ(llama_memory_seq_pos_max(memory, seq), -1);
      }
    }
  }
}

size_t give_one_byte_more(llama_context* context, llama_seq_id seq, llama_state_seq_flags flags) {
  return llama_state_seq_get_size_ext(context, seq, flags) + 1;
}

size_t refuse_to_give(llama_context*, uint8_t*, size_t, llama_seq_id, llama_state_seq_flags) {
  return 0;
}

bool refuse_to_remove(llama_memory_t, llama_seq_id, llama_pos, llama_pos) {
  return false;
}

int32_t refuse_to_decode(llama_context*, llama_batch) {
  return -3;
}

TEST_F(Probe, RefusesAnEngineThatBehavesOtherwise) {
  const ContextPlan found = plan(params_);
  const ContextPtr context = make_context(model_.get(), found.params);
  ASSERT_TRUE(probe_context(api_, context.get(), found));
  const auto refused_with = [&](auto change) {
    LlamaApi api = api_;
    change(api);
    const auto shape = probe_context(api, context.get(), found);
    return !shape && shape.error().code == Code::kUnimplemented;
  };
  EXPECT_TRUE(refused_with([](LlamaApi& api) { api.state_seq_get_size_ext = give_one_byte_more; }));
  EXPECT_TRUE(refused_with([](LlamaApi& api) { api.state_seq_get_data_ext = refuse_to_give; }));
  EXPECT_TRUE(refused_with([](LlamaApi& api) { api.memory_seq_rm = refuse_to_remove; }));
  EXPECT_TRUE(refused_with([](LlamaApi& api) { api.decode = refuse_to_decode; }));
  EXPECT_TRUE(refused_with(
      [](LlamaApi& api) { api.get_memory = [](const llama_context*) -> llama_memory_t { return nullptr; }; }));
  // Another number of streams than the plan says.
  ContextPlan streams = found;
  streams.unified = false;
  EXPECT_FALSE(probe_context(api_, context.get(), streams));
  EXPECT_TRUE(probe_context(api_, context.get(), found));
}

}  // namespace
}  // namespace rhizome
