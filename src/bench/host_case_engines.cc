// Real engines on one host: what the second server finds of what the first has computed, and how often four of them
// that start at once on one prompt compute it.
#include <algorithm>
#include <vector>

#include "bench/agents_compare.h"
#include "bench/host_cases.h"
#include "bench/locations.h"
#include "bench/server_process.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kEngines = 4;
constexpr uint32_t kGenerated = 4;
constexpr uint32_t kLongWords = 2030;  // some 2,048 tokens
constexpr uint32_t kWords = 500;

ChatRequest request_for(std::string_view seed, uint32_t words) {
  ChatRequest request;
  request.conversation = opening(seeded_words(words, seed), seeded_words(8, std::string(seed) + "-own"));
  request.max_tokens = kGenerated;
  return request;
}

Result<std::vector<std::unique_ptr<Server>>> start_engines(Fleet& fleet, const std::string& model, uint32_t count) {
  std::vector<std::unique_ptr<Server>> engines;
  for (uint32_t i = 0; i < count; ++i) {
    Result<std::unique_ptr<Server>> engine = fleet.start({.side = Side::kRhizome,
                                                          .model = model,
                                                          .arguments = server_arguments(1, 2, 8192),
                                                          .cache_arguments = {},
                                                          .shares_host = true});
    if (!engine) return fail(engine.error());
    engines.push_back(std::move(*engine));
  }
  return engines;
}

Status second_finds(HostStage& stage, Fleet& fleet, const std::string& model) {
  const uint32_t prompts = stage.quick ? 2 : 5;
  auto engines = start_engines(fleet, model, 2);
  if (!engines) return fail(engines.error());
  uint64_t whole = 0;
  uint64_t found = 0;
  for (uint32_t i = 0; i < prompts; ++i) {
    const ChatRequest request = request_for("second-" + std::to_string(i), kWords);
    const ChatAnswer first = (*engines)[0]->chat(request);
    const ChatAnswer second = (*engines)[1]->chat(request);
    if (!first.ok() || !second.ok()) return fail(Code::kUnavailable, "a request was not answered");
    stage.report.answered(first.text);
    if (first.prompt_tokens != second.prompt_tokens) stage.report.failure("engines: one prompt, two lengths");
    // The last token is computed in any case.
    const uint64_t blocks = (second.prompt_tokens - 1) / kHostBlockTokens * kHostBlockTokens;
    whole += blocks;
    found += std::min(blocks, second.prompt_tokens - second.computed_tokens);
    stage.progress.step();
  }
  stage.report.row("the second server: tokens of whole blocks found", with_commas(whole), with_commas(found));
  stage.report.figure("second_server_cached_share", static_cast<double>(found) / static_cast<double>(whole));
  return {};
}

Status all_at_once(HostStage& stage, Fleet& fleet, const std::string& model) {
  auto engines = start_engines(fleet, model, kEngines);
  if (!engines) return fail(engines.error());
  const ChatRequest request = request_for("cold", kLongWords);
  std::vector<ChatAnswer> answers(kEngines);
  {
    std::vector<Thread> threads;
    for (uint32_t i = 0; i < kEngines; ++i) {
      Result<Thread> thread = start_thread("bench-engine", [&, i] { answers[i] = (*engines)[i]->chat(request); });
      if (!thread) return fail(thread.error());
      threads.push_back(std::move(*thread));
    }
  }
  uint64_t computed = 0;
  for (const ChatAnswer& answer : answers) {
    if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
    computed += answer.computed_tokens;
    stage.report.answered(answer.text);
    stage.progress.step();
  }
  const uint64_t prompt = answers.front().prompt_tokens;
  stage.report.row("four engines at once on one cold prompt: tokens computed", with_commas(prompt),
                   with_commas(computed));
  stage.report.figure("computed_over_one_prompt_4_engines",
                      static_cast<double>(computed) / static_cast<double>(prompt));
  return {};
}

}  // namespace

Status run_host_engines(HostStage& stage) {
  std::string missing;
  const Result<Locations> where = find_locations(stage.program, "", missing);
  if (!where) {
    stage.report.failure("engines: " + missing);
    return fail(Code::kNotFound, "there is no engine or no model to measure with");
  }
  const std::string& model = stage.quick ? where->quick_model : where->full_model;
  stage.progress.begin("engines", kEngines + (stage.quick ? 2 : 5));
  stage.report.section("real engines of one host", "one thread each; llama-server with the cache attached", "ideal",
                       "measured");
  {
    Result<std::unique_ptr<Fleet>> fleet = Fleet::create(*where);
    if (!fleet) return fail(fleet.error());
    if (const Status done = second_finds(stage, **fleet, model); !done) return done;
  }
  // A host of its own, where nothing is stored.
  Result<std::unique_ptr<Fleet>> fleet = Fleet::create(*where);
  if (!fleet) return fail(fleet.error());
  return all_at_once(stage, **fleet, model);
}

}  // namespace rhizome::bench
