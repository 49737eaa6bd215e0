// Look-ups in the memory of another process, beside the same in one's own memory and as questions over a socket; and
// whether what is used from there counts as used.
#include <algorithm>
#include <atomic>
#include <functional>
#include <stop_token>
#include <vector>

#include "bench/host_cases.h"
#include "bench/text.h"
#include "bench/token_source.h"
#include "bench/workload.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr HostShape kShape{.prefix_blocks = 512, .suffix_blocks = 64, .payload_bytes = 8};
constexpr uint64_t kHotAgents = 256;
constexpr uint64_t kNewAgents = uint64_t{1} << 32;

// The same blocks in a cache of this process.
struct Embedded {
  std::unique_ptr<Counters> counters = Counters::local();
  std::unique_ptr<Client> client;

  static Result<std::unique_ptr<Embedded>> make(uint64_t memory_bytes) {
    auto made = std::make_unique<Embedded>();
    auto client =
        make_embedded_client({.memory_bytes = memory_bytes, .block_tokens = kHostBlockTokens}, *made->counters);
    if (!client) return fail(client.error());
    made->client = std::move(*client);
    return made;
  }
};

// Stores new agents on a thread of its own, and so evicts others, for as long as it lives.
class Churn {
 public:
  explicit Churn(std::function<bool()> store) {
    Result<Thread> thread =
        start_thread("rhizome-churn", [this, store = std::move(store)](const std::stop_token& stop) {
          while (!stop.stop_requested() && is_well_)
            is_well_ = store();
        });
    if (thread) thread_ = std::move(*thread);
  }
  bool ended_well() {
    if (!thread_.joinable()) return false;
    thread_.request_stop();
    thread_.join();
    return is_well_;
  }

 private:
  bool is_well_ = true;
  Thread thread_;
};

struct Rounds {
  std::vector<double> ratios;
  std::vector<double> embedded_ns;
  std::vector<double> attached_ns;
  uint64_t hits = 0;
  uint64_t lost = 0;
};

struct Sides {
  HostUser& embedded;
  HostUser& churning;  // the same client, for another thread
  HostNode& node;
  HostPart& part;
};

// One side after the other: each has a processor for itself, and whoever evicts has the other one.
Status one_round(const Sides& sides, const HostOrder& order, uint64_t* next, Rounds& rounds) {
  std::unique_ptr<Churn> churn;
  const auto begin_churn = [&](const std::function<bool()>& store) {
    if (next != nullptr) churn = std::make_unique<Churn>(store);
  };
  const auto end_churn = [&]() -> Status {
    if (churn == nullptr || churn->ended_well()) return {};
    return fail(Code::kUnavailable, "new agents could not be stored");
  };
  begin_churn([&] { return sides.churning.store(++*next, 1).done > 0; });
  const HostTally own = sides.embedded.look_up(order.count, order.agents, order.seed);
  if (const Status ended = end_churn(); !ended) return ended;
  begin_churn([&] { return sides.node.put(++*next, 1).value_or(0) > 0; });
  const Result<HostTally> other = sides.part.ask(order);
  if (const Status ended = end_churn(); !ended) return ended;
  if (!other) return fail(other.error());
  rounds.embedded_ns.push_back(own.median_ns);
  rounds.attached_ns.push_back(other->median_ns);
  rounds.ratios.push_back(other->median_ns / own.median_ns);
  rounds.hits += own.done + other->done;
  rounds.lost += own.lost + other->lost;
  return {};
}

// Until both have to evict for whoever comes next. What is hot is used meanwhile.
Status fill(const Sides& sides, Embedded& embedded, uint64_t& next) {
  constexpr uint32_t kAtOnce = 64;
  constexpr uint32_t kPatience = 4000;
  const HostOrder use{.verb = HostVerb::kLookUp, .count = 4 * kHotAgents, .agents = kHotAgents, .seed = next};
  for (uint32_t i = 0; i < kPatience; ++i) {
    const bool own_is_full = embedded.counters->get(Counter::kEvictions) > 0;
    if (own_is_full && sides.node.evictions() > 0) return {};
    if (!own_is_full) sides.churning.store(next, kAtOnce);
    if (sides.node.evictions() == 0) {
      if (const auto put = sides.node.put(next, kAtOnce); !put) return fail(put.error());
    }
    next += kAtOnce;
    sides.embedded.look_up(use.count, use.agents, next);
    if (const auto used = sides.part.ask(use); !used) return fail(used.error());
  }
  return fail(Code::kUnavailable, "neither memory nor index ever was full");
}

void report_rounds(Report& report, const char* what, const Rounds& rounds) {
  report.answered(std::string(what) + " " + std::to_string(rounds.hits + rounds.lost));
  report.row(what, fixed(median(rounds.embedded_ns), 0) + " ns", fixed(median(rounds.attached_ns), 0) + " ns");
}

}  // namespace

Status run_host_lookups(HostStage& stage) {
  // A node's index gets a thirty-second of its memory; the embedded one takes what it needs.
  const uint64_t node_bytes = (stage.quick ? uint64_t{128} : uint64_t{1024}) << 20;
  const uint64_t own_bytes = node_bytes / 4;
  const uint32_t stored = stage.quick ? 512 : 4096;
  const uint32_t rounds = stage.quick ? 3 : 9;
  const uint32_t count = stage.quick ? 2000 : 20'000;
  stage.progress.begin("look-ups", 3 * rounds + 2);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kShape, node_bytes);
  if (!node) return fail(node.error());
  Result<std::unique_ptr<Embedded>> embedded = Embedded::make(own_bytes);
  if (!embedded) return fail(embedded.error());
  Result<HostUser> user = HostUser::open(*(*embedded)->client, kShape);
  Result<HostUser> churning = HostUser::open(*(*embedded)->client, kShape);
  if (!user) return fail(user.error());
  if (!churning) return fail(churning.error());
  if (const auto put = (*node)->put(0, stored); !put) return fail(put.error());
  stage.progress.step();
  user->store(0, stored);
  stage.progress.step();
  Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage);
  if (!part) return fail(part.error());
  const Sides sides{*user, *churning, **node, **part};
  Rounds quiet;
  Rounds busy;
  std::vector<double> socket_ns;
  uint64_t next = kNewAgents;
  for (uint32_t round = 0; round < rounds; ++round) {
    const HostOrder order{.verb = HostVerb::kLookUp, .count = count, .agents = kHotAgents, .seed = round};
    if (const Status done = one_round(sides, order, nullptr, quiet); !done) return done;
    stage.progress.step();
    HostOrder question = order;
    question.verb = HostVerb::kSocketLookUp;
    question.count = count / 10;
    const auto answered = (*part)->answer_look_ups(question, (*node)->store(), (*node)->root());
    if (!answered) return fail(answered.error());
    if (answered->done != question.count) return fail(Code::kDataLoss, "a look-up over the socket found too little");
    socket_ns.push_back(answered->median_ns);
    stage.progress.step();
  }
  if (quiet.lost > 0) stage.report.failure("look-ups: what was stored was not found");
  if (const Status filled = fill(sides, **embedded, next); !filled) return filled;
  for (uint32_t round = 0; round < rounds; ++round) {
    const HostOrder order{.verb = HostVerb::kLookUp, .count = count, .agents = kHotAgents, .seed = 100 + round};
    if (const Status done = one_round(sides, order, &next, busy); !done) return done;
    stage.progress.step();
  }
  stage.progress.pause();
  Report& report = stage.report;
  report.section("look-ups",
                 "9,216 tokens, 8,192 of them shared by all; look up, hold, let go; medians of " +
                     std::to_string(rounds) + " interleaved rounds",
                 "own memory", "another's");
  report_rounds(report, "quiet", quiet);
  report_rounds(report, "while the owner stores and evicts", busy);
  report.row("as a question over a socket", "-", fixed(median(socket_ns) / 1000, 1) + " us");
  report.note(with_commas(busy.lost) + " of " + with_commas(busy.hits + busy.lost) +
              " look-ups beside the evicting owner found less than all");
  report.figure("ratio_lookup_pin_attached_over_embedded", median(quiet.ratios));
  report.figure("ratio_lookup_pin_attached_over_embedded_evicting", median(busy.ratios));
  report.figure("ratio_attached_over_socket_lookup", median(quiet.attached_ns) / median(socket_ns));
  return {};
}

namespace {

constexpr HostShape kShort{.prefix_blocks = 0, .suffix_blocks = 4, .payload_bytes = 8192};
constexpr uint32_t kHotRuns = 2000;
constexpr uint32_t kBatch = 16;
constexpr uint32_t kUsesOfABatch = 32;

// How many hot agents are whole after the churn. `use`: looks these up.
Result<uint32_t> hot_after_churn(const std::function<bool(uint64_t, uint32_t)>& put,
                                 const std::function<bool(std::span<const uint32_t>)>& use,
                                 const std::function<uint32_t(uint64_t)>& found, uint32_t churned, Progress& progress) {
  if (!put(0, kHotRuns)) return fail(Code::kUnavailable, "hot agents could not be stored");
  SeededNumbers random(7);
  std::vector<uint32_t> used(kUsesOfABatch);
  for (uint32_t at = 0; at < churned; at += kBatch) {
    for (uint32_t& agent : used)
      agent = static_cast<uint32_t>(random.below(kHotRuns));
    if (!use(used)) return fail(Code::kUnavailable, "hot agents could not be looked up");
    if (!put(kNewAgents + at, kBatch)) return fail(Code::kUnavailable, "new agents could not be stored");
    if (at % (churned / 8) < kBatch) progress.step();
  }
  uint32_t whole = 0;
  for (uint32_t agent = 0; agent < kHotRuns; ++agent)
    whole += found(agent) == kShort.prompt_blocks();
  return whole;
}

}  // namespace

Status run_host_recency(HostStage& stage) {
  // So that some 6,000 agents fit, in either as many: the slots are the limit, not what describes them.
  constexpr uint64_t kMemory = uint64_t{208} << 20;
  const uint32_t churned = stage.quick ? 12'000 : 45'000;
  stage.progress.begin("recency", 16);
  Result<std::unique_ptr<Embedded>> embedded = Embedded::make(kMemory);
  if (!embedded) return fail(embedded.error());
  Result<HostUser> user = HostUser::open(*(*embedded)->client, kShort);
  if (!user) return fail(user.error());
  const auto own = hot_after_churn([&](uint64_t first, uint32_t count) { return user->store(first, count).done > 0; },
                                   [&](std::span<const uint32_t> agents) {
                                     user->touch(agents);
                                     return true;
                                   },
                                   [&](uint64_t agent) { return user->found(agent); }, churned, stage.progress);
  if (!own) return fail(own.error());
  const uint64_t own_blocks = (*embedded)->counters->get(Counter::kBlocksStored);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kShort, kMemory);
  if (!node) return fail(node.error());
  Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage);
  if (!part) return fail(part.error());
  HostPrompts prompts(kShort);
  const auto other = hot_after_churn(
      [&](uint64_t first, uint32_t count) { return (*node)->put(first, count).value_or(0) > 0; },
      [&](std::span<const uint32_t> agents) { return (*part)->ask({.verb = HostVerb::kTouch}, agents).has_value(); },
      [&](uint64_t agent) { return (*node)->store().peek((*node)->root(), prompts.of(agent)); }, churned,
      stage.progress);
  if (!other) return fail(other.error());
  stage.progress.pause();
  Report& report = stage.report;
  report.section("recency",
                 "2,000 prompts that are used while " + with_commas(churned) +
                     " others come and go, three times as many as fit: how many are whole at the end",
                 "own memory", "another's");
  report.row("blocks that fit", with_commas(own_blocks), with_commas((*node)->blocks()));
  report.row("still there", with_commas(*own), with_commas(*other));
  report.answered("recency " + std::to_string(*own + *other));
  report.figure("attached_recency_share", *own == 0 ? 0 : static_cast<double>(*other) / *own);
  return {};
}

}  // namespace rhizome::bench
