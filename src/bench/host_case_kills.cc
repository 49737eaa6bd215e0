// The kill matrix: every verb of a client, and the client or the node killed before it, inside of it or after it, while
// another client goes on. At the end of each case nothing is held, everybody answers, and every byte was right.
#include <algorithm>
#include <string>
#include <vector>

#include <signal.h>

#include "bench/host_cases.h"
#include "bench/host_victim.h"
#include "bench/text.h"
#include "bench/token_source.h"
#include "bench/workload.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/local_socket.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr HostShape kShape{.prefix_blocks = 8, .suffix_blocks = 8, .payload_bytes = 3000};
constexpr uint64_t kMemory = 4 * kMiB;
constexpr uint64_t kStaging = 1 * kMiB;
// Of a process that is not stopped by anybody.
constexpr uint64_t kAnswerNs = 20'000'000'000;
constexpr uint64_t kRestNs = 10'000'000'000;
constexpr uint64_t kRestAgainNs = 500'000;
constexpr uint32_t kSpinMs = 20;
constexpr uint32_t kWarmUpMs = 500;

enum class Phase : uint8_t { kBefore, kInside, kAfter };
constexpr std::array kPhases = {Phase::kBefore, Phase::kInside, Phase::kAfter};

struct Tally {
  uint32_t cases = 0;
  uint32_t leaks = 0;
  uint32_t hangs = 0;
  uint64_t wrong = 0;
  uint64_t done = 0;
};

class Matrix {
 public:
  Matrix(HostStage& stage, uint64_t seed) : stage_(stage), random_(seed), socket_(stage.folder + "/run/node.sock") {}

  const Tally& tally() const { return tally_; }

  Status kill_clients(uint32_t rounds) {
    if (const Status started = start_node(); !started) return started;
    Result<std::unique_ptr<HostPart>> witness = start_victim();
    if (!witness) return fail(witness.error());
    // All of the node's memory is there, and its descriptors.
    const HostOrder warm_up{
        .verb = HostVerb::kSpin, .count = kWarmUpMs, .first = static_cast<uint64_t>(KilledVerb::kRead)};
    if (const Status told = (*witness)->tell(warm_up); !told) return told;
    if (!hears(**witness)) return fail(Code::kDeadlineExceeded, "the first client does not answer");
    const Result<HostUsage> at_first = settled_usage(1);
    if (!at_first) return fail(at_first.error());
    for (uint32_t round = 0; round < rounds; ++round) {
      for (uint32_t verb = 0; verb < kKilledVerbsCount; ++verb) {
        for (const Phase phase : kPhases) {
          if (const Status done = kill_client(static_cast<KilledVerb>(verb), phase, **witness); !done) return done;
          end_case(1);
        }
      }
    }
    count(**witness);
    witness->reset();
    const Result<HostUsage> at_last = settled_usage(0);
    // One client fewer: its socket, its watch and its three memories.
    if (!at_last || at_last->descriptors > at_first->descriptors) ++tally_.leaks;
    if (const Status forgotten = forget_all(); !forgotten) return forgotten;
    end_node();
    return {};
  }

  Status kill_nodes(uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; ++round) {
      for (uint32_t verb = 0; verb < kKilledVerbsCount; ++verb) {
        for (const Phase phase : kPhases) {
          if (const Status done = kill_node(static_cast<KilledVerb>(verb), phase); !done) return done;
        }
      }
    }
    end_node();
    return {};
  }

  // What is killed is the keeper: before the node, at work, or between two nodes.
  Status kill_keepers(uint32_t rounds) {
    has_keeper_ = true;
    for (uint32_t round = 0; round < rounds; ++round) {
      for (const Phase phase : kPhases) {
        if (const Status done = kill_keeper(phase); !done) return done;
      }
    }
    return {};
  }

 private:
  Status start_node() {
    node_.reset();
    auto node = HostPart::start(stage_.program, stage_.folder, socket_,
                                {.role = HostRole::kNode,
                                 .shape = kShape,
                                 .memory_bytes = kMemory,
                                 .tier_bytes = has_keeper_ ? 0 : kMemory,
                                 .has_keeper = has_keeper_});
    if (!node) return fail(node.error());
    node_ = std::move(*node);
    return {};
  }
  // In good order: then nothing of it, of its keeper and of those that were killed is left.
  void end_node() {
    node_->stop();
    node_.reset();
    const std::string folder = socket_.substr(0, socket_.rfind('/'));
    const uint64_t until = monotonic_now_ns() + kRestNs;
    const auto is_empty = [&] {
      const auto files = list_directory(folder);
      return files && files->empty() && keeper_pid() == 0;
    };
    while (!is_empty() && monotonic_now_ns() < until)
      pause_thread(kRestAgainNs);
    if (!is_empty()) ++tally_.leaks;
  }
  Result<std::unique_ptr<HostPart>> start_victim() {
    return HostPart::start(
        stage_.program, stage_.folder, socket_,
        {.role = HostRole::kVictim, .shape = kShape, .staging_bytes = kStaging, .seed = random_.next()});
  }

  // Any instant of the next milliseconds.
  void pause_a_little() { pause_thread(random_.below(uint64_t{kSpinMs} * 1'000'000 / 2)); }

  // What it says by then; a process that does not is stuck.
  bool hears(HostPart& part) {
    const auto heard = part.hear(kAnswerNs);
    if (heard) {
      last_ = *heard;
      return true;
    }
    ++tally_.hangs;
    return false;
  }
  bool asks(HostPart& part, HostVerb verb, KilledVerb what) {
    return part.tell({.verb = verb, .first = static_cast<uint64_t>(what)}).has_value() && hears(part);
  }
  void count(HostPart& part) {
    if (!asks(part, HostVerb::kSettle, KilledVerb::kOpen)) return;
    tally_.wrong += last_.wrong;
    tally_.done += last_.done;
  }

  Status kill_client(KilledVerb verb, Phase phase, HostPart& witness) {
    Result<std::unique_ptr<HostPart>> victim = start_victim();
    if (!victim) return fail(victim.error());
    // The witness uses all verbs in turn meanwhile.
    const auto other = random_.below(kKilledVerbsCount);
    if (const Status told = witness.tell({.verb = HostVerb::kSpin, .count = kSpinMs, .first = other}); !told) {
      return told;
    }
    if (phase == Phase::kInside) {
      const HostOrder spin{.verb = HostVerb::kSpin, .count = UINT32_MAX, .first = static_cast<uint64_t>(verb)};
      if (const Status told = (*victim)->tell(spin); !told) return told;
      pause_a_little();
    } else {
      if (!asks(**victim, HostVerb::kPrepare, verb)) return {};
      if (phase == Phase::kAfter && !asks(**victim, HostVerb::kAct, verb)) return {};
    }
    (*victim)->kill();
    hears(witness);
    return {};
  }

  Status kill_node(KilledVerb verb, Phase phase) {
    if (const Status started = start_node(); !started) return started;
    Result<std::unique_ptr<HostPart>> user = start_victim();
    if (!user) return fail(user.error());
    const HostOrder fill{.verb = HostVerb::kSpin, .count = kSpinMs, .first = static_cast<uint64_t>(KilledVerb::kRead)};
    if (const Status told = (*user)->tell(fill); !told) return told;
    if (!hears(**user)) return {};
    const auto kill_and_start = [&] {
      node_->kill();
      return start_node();
    };
    if (phase == Phase::kInside) {
      const HostOrder spin{.verb = HostVerb::kSpin, .count = kSpinMs, .first = static_cast<uint64_t>(verb)};
      if (const Status told = (*user)->tell(spin); !told) return told;
      pause_a_little();
      if (const Status started = kill_and_start(); !started) return started;
      hears(**user);
    } else {
      if (!asks(**user, HostVerb::kPrepare, verb)) return {};
      if (phase == Phase::kAfter && !asks(**user, HostVerb::kAct, verb)) return {};
      if (const Status started = kill_and_start(); !started) return started;
      if (phase == Phase::kBefore) asks(**user, HostVerb::kAct, verb);
    }
    comes_back(**user);
    end_case(1);
    count(**user);
    user->reset();
    if (!settled_usage(0)) ++tally_.leaks;
    return {};
  }

  Status kill_keeper(Phase phase) {
    if (const Status started = start_node(); !started) return started;
    Result<std::unique_ptr<HostPart>> user = start_victim();
    if (!user) return fail(user.error());
    const pid_t keeper = keeper_pid();
    if (keeper == 0) return fail(Code::kUnavailable, "the node has no keeper");
    const HostOrder spin{.verb = HostVerb::kSpin, .count = kSpinMs, .first = static_cast<uint64_t>(KilledVerb::kRead)};
    if (phase == Phase::kBefore) ::kill(keeper, SIGKILL);
    if (const Status told = (*user)->tell(spin); !told) return told;
    pause_a_little();
    if (phase == Phase::kInside) ::kill(keeper, SIGKILL);
    hears(**user);
    node_->kill();
    if (phase == Phase::kAfter) ::kill(keeper, SIGKILL);
    if (const Status started = start_node(); !started) return started;
    comes_back(**user);
    end_case(1);
    count(**user);
    user->reset();
    if (!settled_usage(0)) ++tally_.leaks;
    end_node();
    return {};
  }

  // 0: there is none.
  pid_t keeper_pid() const {
    const auto socket = LocalSocket::connect(keeper_socket(socket_), monotonic_now_ns() + kAnswerNs);
    if (!socket) return 0;
    const auto peer = socket->peer_credentials();
    return peer && is_process_alive(peer->pid) ? peer->pid : 0;
  }

  // With the new node it stores and reads again.
  void comes_back(HostPart& user) {
    if (!asks(user, HostVerb::kSettle, KilledVerb::kOpen)) return;
    const uint64_t before = last_.done;
    const uint64_t until = monotonic_now_ns() + kAnswerNs;
    while (last_.done == before && monotonic_now_ns() < until) {
      const HostOrder spin{.verb = HostVerb::kSpin, .count = 1, .first = static_cast<uint64_t>(KilledVerb::kRead)};
      if (!user.tell(spin) || !hears(user)) return;
    }
    if (last_.done == before) ++tally_.hangs;
  }

  // Nobody holds anything, and so many clients are there; what the node counts is what it has.
  Result<HostUsage> settled_usage(uint64_t clients) {
    const uint64_t until = monotonic_now_ns() + kRestNs;
    for (;;) {
      const Result<HostUsage> usage = node_->ask_node(HostVerb::kUsage);
      if (!usage) return fail(usage.error());
      if (usage->clients == clients && usage->held == 0) return usage;
      if (monotonic_now_ns() > until) return fail(Code::kDeadlineExceeded, "something is held that nobody holds");
      pause_thread(kRestAgainNs);
    }
  }

  void end_case(uint64_t clients) {
    ++tally_.cases;
    if (!settled_usage(clients)) ++tally_.leaks;
    stage_.progress.step();
  }

  Status forget_all() {
    const uint64_t until = monotonic_now_ns() + kRestNs;
    for (;;) {
      const Result<HostUsage> usage = node_->ask_node(HostVerb::kClear);
      if (!usage) return fail(usage.error());
      if (usage->blocks == 0 && usage->bytes == 0) return {};
      if (monotonic_now_ns() > until) {
        ++tally_.leaks;
        return {};
      }
      pause_thread(kRestAgainNs);
    }
  }

  HostStage& stage_;
  SeededNumbers random_;
  const std::string socket_;
  bool has_keeper_ = false;
  std::unique_ptr<HostPart> node_;
  Tally tally_;
  HostTally last_;
};

}  // namespace

Status run_host_kills(HostStage& stage) {
  const uint64_t seed = random_u64();
  const uint32_t rounds = stage.quick ? 1 : 4;
  const uint32_t node_rounds = stage.quick ? 1 : 2;
  const uint32_t keeper_rounds = stage.quick ? 1 : 4;
  stage.progress.begin("kills", (rounds + node_rounds) * kKilledVerbsCount * 3 + keeper_rounds * 3);
  Matrix matrix(stage, seed);
  if (const Status done = matrix.kill_clients(rounds); !done) return done;
  if (const Status done = matrix.kill_nodes(node_rounds); !done) return done;
  if (const Status done = matrix.kill_keepers(keeper_rounds); !done) return done;
  stage.progress.pause();
  const Tally& tally = matrix.tally();
  Report& report = stage.report;
  report.section(
      "kill -9",
      std::to_string(kKilledVerbsCount) +
          " verbs of a client, and the client, the node or its keeper killed before, inside or after; seed " +
          std::to_string(seed),
      "", "");
  report.row("cases", "", with_commas(tally.cases));
  report.row("blocks stored or read and compared", "", with_commas(tally.done));
  report.row("something stayed held, a file or a descriptor open", "", with_commas(tally.leaks));
  report.row("wrong bytes", "", with_commas(tally.wrong));
  report.row("somebody did not answer", "", with_commas(tally.hangs));
  report.answered("kills " + std::to_string(tally.done));
  report.figure("kill_cases", tally.cases);
  report.figure("kill_leaks", tally.leaks);
  report.figure("kill_wrong_bytes", static_cast<double>(tally.wrong));
  report.figure("kill_hangs", tally.hangs);
  if (tally.done == 0) report.failure("kills: nothing was ever stored or read");
  return {};
}

Status run_host_restart(HostStage& stage) {
  constexpr HostShape kStored{.prefix_blocks = 0, .suffix_blocks = 16, .payload_bytes = 16384};
  const uint32_t agents = stage.quick ? 64 : 1024;
  const uint32_t rounds = stage.quick ? 1 : 5;
  stage.progress.begin("restarts", rounds);
  std::vector<double> warm;
  std::vector<double> seconds;
  for (uint32_t round = 0; round < rounds; ++round) {
    const std::string socket = stage.folder + "/restart-" + std::to_string(round) + "/node.sock";
    const HostBeginning beginning{.role = HostRole::kNode,
                                  .shape = kStored,
                                  .memory_bytes = (agents * kStored.prompt_blocks() * 20480) + 64 * kMiB,
                                  .has_keeper = true};
    const HostBeginning client{.shape = kStored, .staging_bytes = 4 * kMiB};
    auto node = HostPart::start(stage.program, stage.folder, socket, beginning);
    if (!node) return fail(node.error());
    auto user = HostPart::start(stage.program, stage.folder, socket, client);
    if (!user) return fail(user.error());
    const auto stored = (*user)->ask({.verb = HostVerb::kStore, .count = agents});
    if (!stored) return fail(stored.error());
    const auto before = (*node)->ask_node(HostVerb::kUsage);
    if (!before) return fail(before.error());
    user->reset();
    (*node)->kill();
    const uint64_t began_ns = monotonic_now_ns();
    node = HostPart::start(stage.program, stage.folder, socket, beginning);
    if (!node) return fail(node.error());
    seconds.push_back(static_cast<double>(monotonic_now_ns() - began_ns) / 1e9);
    user = HostPart::start(stage.program, stage.folder, socket, client);
    if (!user) return fail(user.error());
    const auto read = (*user)->ask({.verb = HostVerb::kReadAll, .count = agents});
    if (!read) return fail(read.error());
    if (read->wrong > 0 || before->blocks == 0)
      stage.report.failure("restart: a block was another one, or none was there");
    stage.report.answered("restart " + std::to_string(read->done));
    warm.push_back(static_cast<double>(read->done) / static_cast<double>(std::max<uint64_t>(before->blocks, 1)));
    (*node)->stop();
    stage.progress.step();
  }
  stage.progress.pause();
  Report& report = stage.report;
  report.section("a node that was killed",
                 with_commas(uint64_t{agents} * kStored.prompt_blocks()) + " blocks of 16 KiB; each read and compared",
                 "", "after");
  report.row("warm", "", fixed(*std::ranges::min_element(warm) * 100, 1) + " %");
  report.row("until the new one answers", "", milliseconds(median(seconds)));
  report.figure("restart_warm_share", *std::ranges::min_element(warm));
  return {};
}

}  // namespace rhizome::bench
