// The conversations that the bench sends, and the least number of tokens that anybody must compute for them.
// Every text is drawn from a list of common words (one token each) with a seed, so that runs repeat exactly.
//
// Thread-safety: plain values; an AgentHistories belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome::bench {

std::string seeded_words(uint32_t count, std::string_view seed);

struct Message {
  std::string role;
  std::string content;
};
using Conversation = std::vector<Message>;

// A system text and the first text of the user.
Conversation opening(std::string system, std::string user);

// `agents` conversations that share a system text. In each of `rounds` every agent is answered once and then says
// `follow_words` more.
struct AgentsShape {
  uint32_t agents = 8;
  uint32_t rounds = 3;
  uint32_t shared_words = 1024;
  uint32_t own_words = 200;
  uint32_t follow_words = 32;
  uint32_t generated_tokens = 16;
  bool at_once = false;  // all agents of a round in flight together, or one request after another
  std::string seed;
};

class AgentHistories {
 public:
  explicit AgentHistories(const AgentsShape& shape);

  const Conversation& of(uint32_t agent) const { return histories_[agent]; }
  // What the agent was told in `round`, and what it says next.
  void extend(uint32_t agent, uint32_t round, const std::string& reply);

 private:
  AgentsShape shape_;
  std::vector<Conversation> histories_;
};

// What a server says about one answer.
struct AnswerTokens {
  uint64_t prompt = 0;
  uint64_t generated = 0;
};

// Each distinct token position computed once: the shared text once, each agent's own text once, and of every later
// prompt what it has more than the one before and its answer. `rounds` is [round][agent].
uint64_t ideal_tokens(uint64_t shared_tokens, const std::vector<std::vector<AnswerTokens>>& rounds);

// The middle one; the mean of the two in the middle when their number is even. Not for an empty list.
double median(std::vector<double> values);

}  // namespace rhizome::bench
