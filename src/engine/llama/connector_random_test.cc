// A server under random load: conversations that share prefixes, salted and bypassed ones among them, clients that go
// away, prompts cut into batches that sequences share, a cache of blocks that is too small, restores that fail. Every
// first answer must be the one that a bare engine gives; in exact mode bit for bit, and so must what follows.
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

// Without flash attention: what another batch or another order of cells may move a logit by.
constexpr float kNoise = 0.02F;
constexpr int32_t kSlots = 5;
constexpr uint32_t kBatchRows = 96;

struct Kind {
  const char* name;
  bool windowed;
  bool unified;
  bool exact;
  bool hook;
  uint32_t seed;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

struct Slot {
  std::vector<Token> rows;    // what the server believes to be there
  std::vector<Token> prompt;  // empty: idle
  std::vector<Token> said;    // given to the engine behind the prompt
  size_t to_say = 0;
  TestEngine::Request request;

  bool in_prompt() const { return rows.size() < prompt.size(); }
};

class ConnectorRandom : public testing::TestWithParam<Kind> {
 protected:
  ConnectorRandom()
      : seed_(GetParam().seed + 100 * static_cast<uint32_t>(GTEST_FLAG_GET(random_seed))),
        random_(seed_),
        model_(GetParam().windowed ? window_model(96) : dense_model()),
        engine_(model_, cache_, options(true)),
        slots_(kSlots) {
    imports_until_failure = 0;
    engine_.api.state_seq_set_data_ext = [](llama_context* context, const uint8_t* data, size_t size, llama_seq_id seq,
                                            llama_state_seq_flags flags) -> size_t {
      const bool fails = imports_until_failure == 1;
      if (imports_until_failure > 0) --imports_until_failure;
      if (fails) return 0;
      return llama_state_seq_set_data_ext(context, data, size, seq, flags);
    };
  }

  static TestEngineOptions options(bool restore) {
    TestEngineOptions options;
    options.params = one_thread_params(GetParam().unified ? 1280 : 512 * kSlots, kSlots, GetParam().unified);
    options.params.n_ubatch = 64;
    options.exact = GetParam().exact;
    if (!options.exact) options.params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    options.restore = restore;
    return options;
  }

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  // One of few prompts, so that most of them were seen before, whole or in part.
  std::vector<Token> some_prompt() {
    const size_t lengths[] = {1, 20, 64, 100, 128, 150};
    auto prompt = random_tokens(1 + below(2), lengths[below(6)]);
    return join(prompt, random_tokens(10 + below(3), 1 + below(4) * 31));
  }

  void begin_request(Slot& slot) {
    slot.prompt = some_prompt();
    slot.said.clear();
    slot.to_say = below(20);
    slot.request = {};
    slot.request.salt = below(5) == 0 ? "s" : "";
    slot.request.flags = below(8) == 0 ? uint32_t{Connector::kBypass} : 0;
    slot.request.hook = GetParam().hook;
    const auto seq = static_cast<int32_t>(&slot - slots_.data());
    const size_t have = std::min<size_t>(common_prefix(slot.rows, slot.prompt), slot.prompt.size() - 1);
    // As llama-server does: nothing is kept when the window may have passed what is needed.
    slot.rows.resize(GetParam().windowed && have < slot.rows.size() ? 0 : have);
    ASSERT_TRUE(engine_.connector->remove(seq, static_cast<int32_t>(slot.rows.size()), -1));
  }

  void empty(Slot& slot) {
    ASSERT_TRUE(engine_.connector->remove(static_cast<int32_t>(&slot - slots_.data()), -1, -1));
    slot = Slot{};
  }

  void set_idle(Slot& slot) {
    const auto have = static_cast<int32_t>(slot.rows.size());
    const int32_t now = engine_.connector->set_idle(static_cast<int32_t>(&slot - slots_.data()), have);
    ASSERT_TRUE(now == have || (now == 0 && GetParam().windowed)) << now << " of " << have;
    if (now < have) empty(slot);
  }

  bool empty_idle_slots() {
    bool any = false;
    for (Slot& slot : slots_) {
      if (!slot.prompt.empty() || slot.rows.empty()) continue;
      empty(slot);
      any = true;
    }
    return any;
  }

  // False: the slot waits for another one in this round.
  bool ask(Slot& slot) {
    if (!slot.request.hook) return true;
    const auto seq = static_cast<int32_t>(&slot - slots_.data());
    const auto have = static_cast<int32_t>(slot.rows.size());
    int32_t now = engine_.restore(seq, slot.prompt, have, slot.request);
    while (now == Connector::kNoCells) {
      TestEngine::Request again = slot.request;
      if (!empty_idle_slots()) again.flags |= Connector::kWhatFits;
      now = engine_.restore(seq, slot.prompt, have, again);
    }
    if (now == Connector::kAskAgain) return false;
    EXPECT_LT(now, static_cast<int32_t>(slot.prompt.size()));
    slot.rows.assign(slot.prompt.begin(), slot.prompt.begin() + now);
    return true;
  }

  // One round of the server: every slot gives what it has to the batch; the batch is computed in pieces if need be.
  void round() {
    std::vector<Row> rows;
    for (int32_t seq = 0; seq < kSlots; ++seq) {
      Slot& slot = slots_[static_cast<size_t>(seq)];
      if (slot.prompt.empty() || rows.size() >= kBatchRows) continue;
      if (!slot.in_prompt()) {
        slot.said.push_back(below(256));
        slot.rows.push_back(slot.said.back());
        add(rows, seq, slot.rows.size() - 1, slot.said.back(), true);
        continue;
      }
      if (!ask(slot)) continue;
      while (slot.in_prompt() && rows.size() < kBatchRows) {
        slot.rows.push_back(slot.prompt[slot.rows.size()]);
        add(rows, seq, slot.rows.size() - 1, slot.rows.back(), !slot.in_prompt());
      }
    }
    const bool busy = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.prompt.empty(); });
    empty_rounds_ = rows.empty() && busy ? empty_rounds_ + 1 : 0;
    ASSERT_LT(empty_rounds_, 4) << "llama-server would give up";
    compute(rows);
  }

  static void add(std::vector<Row>& rows, int32_t seq, size_t position, Token token, bool output) {
    rows.push_back(Row{token, static_cast<int32_t>(position), seq, output, 0});
  }

  void compute(std::span<const Row> rows) {
    size_t size = kBatchRows;
    for (size_t begin = 0; begin < rows.size();) {
      const auto part = rows.subspan(begin, std::min(size, rows.size() - begin));
      const int32_t status = engine_.decode(part);
      if (status != 0) {
        ASSERT_EQ(status, 1);
        ASSERT_GT(size, 1U) << "all that is needed at once fits";
        if (!empty_idle_slots()) size /= 2;
        continue;
      }
      for (size_t i = 0; i < part.size(); ++i) {
        if (part[i].output) check(part[i].sequence, engine_.logits(static_cast<int32_t>(i)));
      }
      begin += part.size();
    }
  }

  void check(int32_t seq, const Logits& found) {
    Slot& slot = slots_[static_cast<size_t>(seq)];
    ++answers_;
    if (GetParam().exact) {
      const Answer& wanted = cold(slot.prompt, slot.said);
      ASSERT_TRUE(bit_equal(found, wanted.logits[slot.said.size()]))
          << "slot " << seq << ", prompt of " << slot.prompt.size() << ", " << slot.said.size() << " behind it, off by "
          << greatest_difference(found, wanted.logits[slot.said.size()]);
    } else if (slot.said.empty() || slot.said.size() == slot.to_say) {
      const auto text = join(slot.prompt, slot.said);
      auto [at, is_new] = bare_.try_emplace(text);
      if (is_new) at->second = bare_logits(model_, options(false).params, text);
      ASSERT_LE(greatest_difference(found, at->second), kNoise)
          << "slot " << seq << ", prompt of " << slot.prompt.size() << ", " << slot.said.size() << " behind it";
    }
    if (slot.said.size() >= slot.to_say) slot.prompt.clear();  // answered: the slot is idle
  }

  // With nothing cached, alone.
  const Answer& cold(const std::vector<Token>& prompt, const std::vector<Token>& said) {
    Answer& answer = cold_[prompt];
    if (answer.logits.empty() || answer.tokens.size() < said.size() ||
        !std::equal(said.begin(), said.end(), answer.tokens.begin())) {
      TestEngine alone(model_, cold_cache_, options(false));
      answer = {};
      answer.logits.push_back(alone.ask(0, prompt));
      for (const Token token : said)
        answer.logits.push_back(alone.step(0, token));
      answer.tokens = said;
    }
    return answer;
  }

  static inline int imports_until_failure = 0;  // 0: never

  const uint32_t seed_;  // --gtest_random_seed=N runs another one
  std::mt19937 random_;
  const TestModel model_;
  TestCache cache_{uint64_t{GetParam().windowed ? 500U : 250U} << 10};
  TestCache cold_cache_;
  TestEngine engine_;
  std::vector<Slot> slots_;
  std::map<std::vector<Token>, Logits> bare_;
  std::map<std::vector<Token>, Answer> cold_;
  int empty_rounds_ = 0;
  int answers_ = 0;
};

TEST_P(ConnectorRandom, AnswersAreThoseOfABareEngine) {
  for (int step = 0; step < 400 && !HasFatalFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + " step " + std::to_string(step));
    Slot& slot = slots_[below(kSlots)];
    switch (below(13)) {
      case 0:
        empty(slot);  // also in the middle of a prompt: the client is gone
        break;
      case 1:
        imports_until_failure = static_cast<int>(1 + below(2));
        break;
      case 2:
        if (below(8) == 0) {
          engine_.connector->clear(true);
          for (Slot& each : slots_)
            each = Slot{};
        }
        break;
      case 3:
        if (slot.prompt.empty()) {
          // Taken by somebody whose rows are not known.
          engine_.connector->replaced(static_cast<int32_t>(&slot - slots_.data()));
          empty(slot);
        }
        break;
      case 4:
        for (Slot& each : slots_)
          if (each.prompt.empty()) set_idle(each);
        break;
      case 5:
      case 6:
      case 7:
        if (slot.prompt.empty()) begin_request(slot);
        break;
      default:
        round();
    }
  }
  EXPECT_GT(answers_, 100);
  EXPECT_GT(cache_.count(Counter::kTokensRestoredSlab), 0U);
  EXPECT_GT(cache_.count(Counter::kEvictions), 0U);
  EXPECT_GT(cache_.count(Counter::kImportsFailed), 0U);
  EXPECT_EQ(cache_.count(Counter::kSequencesParked) > 0, GetParam().unified && GetParam().hook && !GetParam().windowed);
  EXPECT_EQ(cache_.count(Counter::kMemoryPinned), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    All, ConnectorRandom,
    testing::Values(Kind{"dense", false, true, false, true, 1}, Kind{"dense_no_hook", false, true, false, false, 2},
                    Kind{"streams", false, false, false, true, 3}, Kind{"window", true, true, false, true, 4},
                    Kind{"window_no_hook", true, true, false, false, 5}, Kind{"exact", false, false, true, true, 6},
                    Kind{"exact_no_hook", false, false, true, false, 7},
                    Kind{"exact_window", true, false, true, true, 8}),
    [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
