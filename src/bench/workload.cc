#include "bench/workload.h"

#include <algorithm>
#include <array>
#include <utility>

#include "contract/check.h"

namespace rhizome::bench {
namespace {

constexpr std::array<std::string_view, 99> kWords = {
    "time",     "year",        "people", "way",       "day",     "man",       "thing",   "woman",   "life",
    "child",    "world",       "school", "state",     "family",  "student",   "group",   "country", "problem",
    "hand",     "part",        "place",  "case",      "week",    "company",   "system",  "program", "work",
    "question", "government",  "number", "night",     "point",   "home",      "water",   "room",    "mother",
    "area",     "money",       "story",  "fact",      "month",   "lot",       "right",   "study",   "book",
    "eye",      "job",         "word",   "business",  "issue",   "side",      "kind",    "head",    "house",
    "service",  "friend",      "father", "power",     "hour",    "game",      "line",    "end",     "member",
    "law",      "car",         "city",   "community", "name",    "president", "team",    "minute",  "idea",
    "body",     "information", "back",   "parent",    "face",    "others",    "level",   "office",  "door",
    "health",   "person",      "art",    "war",       "history", "party",     "result",  "change",  "morning",
    "reason",   "research",    "girl",   "guy",       "moment",  "air",       "teacher", "force",   "education"};

uint64_t hash_seed(std::string_view seed) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : seed)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

uint64_t next_random(uint64_t& state) {  // splitmix64
  state += 0x9e3779b97f4a7c15ULL;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::string seeded_words(uint32_t count, std::string_view seed) {
  uint64_t state = hash_seed(seed);
  std::string text;
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[next_random(state) % kWords.size()];
  }
  return text;
}

Conversation opening(std::string system, std::string user) {
  return {{"system", std::move(system)}, {"user", std::move(user)}};
}

AgentHistories::AgentHistories(const AgentsShape& shape) : shape_(shape) {
  const std::string shared = seeded_words(shape.shared_words, "shared-" + shape.seed);
  for (uint32_t agent = 0; agent < shape.agents; ++agent) {
    const std::string seed = "own-" + std::to_string(agent) + "-" + shape.seed;
    histories_.push_back(opening(shared, seeded_words(shape.own_words, seed)));
  }
}

void AgentHistories::extend(uint32_t agent, uint32_t round, const std::string& reply) {
  const std::string seed = "follow-" + std::to_string(round) + "-" + std::to_string(agent) + "-" + shape_.seed;
  histories_[agent].push_back({"assistant", reply});
  histories_[agent].push_back({"user", seeded_words(shape_.follow_words, seed)});
}

uint64_t ideal_tokens(uint64_t shared_tokens, const std::vector<std::vector<AnswerTokens>>& rounds) {
  uint64_t ideal = shared_tokens;
  for (size_t round = 0; round < rounds.size(); ++round) {
    for (size_t agent = 0; agent < rounds[round].size(); ++agent) {
      const uint64_t prompt = rounds[round][agent].prompt;
      const uint64_t known =
          round == 0 ? shared_tokens : rounds[round - 1][agent].prompt + rounds[round - 1][agent].generated;
      ideal += prompt > known ? prompt - known : 0;
    }
  }
  return ideal;
}

double median(std::vector<double> values) {
  RHIZOME_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace rhizome::bench
