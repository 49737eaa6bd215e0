#include "bench/chat_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/exact_compare.h"

namespace rhizome::bench {
namespace {

TEST(ChatRequestBody, SaysWhatIsAsked) {
  ChatRequest request;
  request.conversation = opening("be \"brief\"", "hello");
  request.max_tokens = 7;
  request.engine_slot = 3;
  request.ignore_end = true;
  const nlohmann::json body = nlohmann::json::parse(chat_request_body(request));
  EXPECT_EQ(body["messages"][0]["content"], "be \"brief\"");
  EXPECT_EQ(body["messages"][1]["role"], "user");
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["id_slot"], 3);
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_FALSE(body.contains("logprobs"));
}

TEST(ChatRequestBody, SurvivesTextThatIsNoUtf8) {
  ChatRequest request;
  request.conversation = opening("\xff\xfe", "hello");
  EXPECT_TRUE(nlohmann::json::accept(chat_request_body(request)));
}

TEST(StreamEvent, CollectsTextAndCounts) {
  ChatAnswer answer;
  EXPECT_FALSE(read_stream_event(R"({"choices":[{"delta":{"role":"assistant","content":null}}]})", answer));
  EXPECT_TRUE(read_stream_event(R"({"choices":[{"delta":{"content":"he"},"finish_reason":null}]})", answer));
  EXPECT_TRUE(read_stream_event(R"({"choices":[{"delta":{"content":"llo"}}]})", answer));
  EXPECT_TRUE(read_stream_event(R"({"choices":[{"delta":{},"finish_reason":"length"}]})", answer));
  EXPECT_FALSE(read_stream_event(R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,)"
                                 R"("prompt_tokens_details":{"cached_tokens":90}}})",
                                 answer));
  EXPECT_EQ(answer.text, "hello");
  EXPECT_EQ(answer.prompt_tokens, 100u);
  EXPECT_EQ(answer.generated_tokens, 2u);
  EXPECT_EQ(answer.computed_tokens, 10u);
}

TEST(StreamEvent, TimingsKnowBetter) {
  ChatAnswer answer;
  read_stream_event(
      R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2},"timings":{"cache_n":91,"prompt_n":9}})",
      answer);
  EXPECT_EQ(answer.computed_tokens, 9u);
  EXPECT_EQ(answer.prompt_tokens, 100u);
}

TEST(StreamEvent, WhatIsNoJsonIsAnError) {
  ChatAnswer answer;
  EXPECT_FALSE(read_stream_event("{\"choices\":", answer));
  EXPECT_NE(answer.error, "");
}

constexpr const char* kWhole = R"({"choices":[{"message":{"content":"x \"}"},"logprobs":{"content":)"
                               R"([{"id":5,"token":"}\"","logprob":-0.12345678901234567,)"
                               R"("top_logprobs":[]},{"id":6,"token":"b","logprob":-1.5}]}}],)"
                               R"("created":17,"usage":{"prompt_tokens":9,"completion_tokens":2}})";

TEST(WholeAnswer, ReadsTokensAndProbabilities) {
  ChatAnswer answer;
  read_whole_answer(kWhole, answer);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.text, "x \"}");
  ASSERT_EQ(answer.probabilities.size(), 2u);
  EXPECT_EQ(answer.probabilities[0].id, 5);
  EXPECT_EQ(answer.probabilities[1].log_probability, -1.5);
  EXPECT_EQ(answer.printed_probabilities.front(), '{');
  EXPECT_EQ(answer.printed_probabilities.back(), '}');
  EXPECT_NE(answer.printed_probabilities.find("-0.12345678901234567"), std::string::npos);
  EXPECT_EQ(answer.printed_probabilities.find("created"), std::string::npos);
}

TEST(WholeAnswer, WithoutChoicesIsAnError) {
  ChatAnswer answer;
  read_whole_answer("[]", answer);
  EXPECT_NE(answer.error, "");
}

TEST(PrintedValue, FindsTheBracketThatCloses) {
  EXPECT_EQ(printed_value(R"({"a":{"b":["}"]},"c":1})", "a"), R"({"b":["}"]})");
  EXPECT_EQ(printed_value(R"({"a": [1,[2]]})", "a"), "[1,[2]]");
  EXPECT_EQ(printed_value(R"({"a":1})", "a"), "");
  EXPECT_EQ(printed_value(R"({"a":{"b":)", "a"), "");
  EXPECT_EQ(printed_value("", "a"), "");
}

TEST(RefusalText, IsOneLine) {
  EXPECT_EQ(refusal_text(500, R"({"error":{"code":500,"message":"Context size\nexceeded"}})"),
            "HTTP 500 Context size exceeded");
  EXPECT_EQ(refusal_text(404, "not\nhere"), "HTTP 404 not here");
}

TEST(SameAnswer, TheLastDigitCounts) {
  ChatAnswer a;
  read_whole_answer(kWhole, a);
  ChatAnswer b = a;
  EXPECT_TRUE(same_answer(a, b));
  b.probabilities[0].log_probability = -0.12345678901234568 - 1e-16;
  EXPECT_FALSE(same_answer(a, b));
  b = a;
  b.printed_probabilities[b.printed_probabilities.find("-1.5") + 3] = '6';
  EXPECT_FALSE(same_answer(a, b));
  EXPECT_FALSE(same_answer(ChatAnswer(), ChatAnswer()));  // nothing was compared
}

}  // namespace
}  // namespace rhizome::bench
