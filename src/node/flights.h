// Flights: which blocks are being computed now, by whom, and who waits for them, so that what several engines of a host
// want is computed by one of them.
//
// States of a claim (blocks [first, end) of some tokens):
//
//   live   announced by an owner. Each commit of the owner moves `first` on and gives the claim its patience again: so
//          long may nothing be heard of it.
//   over   withdrawn, committed to its end, its owner has left, or its patience has run out. It is as if it had never
//          been: the next one who announces computes what is missing.
//
// A wait is one-shot: whoever waits has looked, says so here, and sleeps on a word of his own. A commit or the end of a
// claim that may concern him ends the wait and stirs him, and he looks again. Whatever is missed costs no more than the
// time at which he looks again anyway, so nothing here has to be exact, and nothing needs a timer: claims whose
// patience has run out are dropped when somebody asks.
//
// Why nobody waits for ever: a waiter holds nothing here that others need, and ends at the patience of the claim that
// he waits for or at his own deadline, whichever is first. Two owners that wait for each other's blocks (A for B's
// while B waits for A's) commit nothing, so both claims end, and both compute. The connector never gets there: it
// withdraws what it has claimed before it sleeps (engine/llama/host_flight.h).
//
// Thread-safety: none; one thread, or a lock of whoever has it. Stirring is called from inside and must not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "block/token.h"
#include "contract/result.h"
#include "index/index_types.h"

namespace rhizome {

struct FlightLimits {
  uint32_t claims_max = 4096;
  uint32_t claims_of_owner_max = 64;
  uint32_t waits_of_owner_max = 64;
  size_t tokens_of_owner_max = size_t{1} << 20;  // of its claims and its waits: what all others' are compared with
  uint64_t patience_max_ns = 120'000'000'000;
};

class Flights {
 public:
  explicit Flights(uint32_t block_tokens, const FlightLimits& limits = {})
      : block_tokens_(block_tokens), limits_(limits) {}

  // An owner comes, and what wakes it when it waits. It is new, or has left.
  void enter(uint64_t owner, std::function<void()> stir);
  // It is gone with all that it has claimed. Fine for who never came.
  void leave(uint64_t owner);

  struct Announced {
    uint64_t claim = 0;     // 0: somebody else computes block `first`
    uint32_t end = 0;       // of the claim; or of what the other one computes of these tokens
    uint64_t until_ns = 0;  // when it ends unless it makes progress
  };
  // `owner` is about to compute blocks [first, end of tokens), which are whole blocks from position 0. Its claim ends
  // earlier when another one begins there. kInvalidArgument: no blocks. kResourceExhausted: too many claims, or too
  // long ones. kNotFound: such an owner there is not.
  Result<Announced> announce(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t first,
                             uint64_t patience_ns, uint64_t now_ns);
  // Of a claim that is over, or somebody else's: nothing.
  void withdraw(uint64_t owner, uint64_t claim);

  // The owner has made all whole blocks of `tokens` visible.
  void committed(uint64_t owner, Root root, std::span<const Token> tokens, uint64_t now_ns);

  // Until when somebody computes block `block` of the tokens if no progress is seen; none: nobody does.
  std::optional<uint64_t> computed_until(Root root, std::span<const Token> tokens, uint32_t block, uint64_t now_ns);
  // The same, asked by `owner`: what he computes himself does not count.
  bool is_computed_by_others(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t block, uint64_t now_ns);
  // Stirs the owner once there may be more than `block` blocks, or nobody computes that one. At most until `until_ns`.
  // kResourceExhausted, kNotFound: as announce().
  Status wait(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t block, uint64_t until_ns,
              uint64_t now_ns);

  size_t claims_count() const { return claims_.size(); }
  size_t waits_count() const { return waits_.size(); }

 private:
  struct Claimed {
    uint64_t id = 0;
    uint64_t owner = 0;
    Root root = {};
    std::vector<Token> tokens = {};
    uint32_t first = 0;
    uint64_t patience_ns = 0;
    uint64_t until_ns = 0;
  };
  struct Waiting {
    uint64_t owner = 0;
    Root root = {};
    std::vector<Token> tokens = {};  // to the end of the block that is waited for
    uint64_t until_ns = 0;
  };
  struct Owner {
    std::function<void()> stir;
    uint32_t claims = 0;
    uint32_t waits = 0;
    size_t tokens = 0;
  };
  using Claims = std::list<Claimed>;
  using Waits = std::list<Waiting>;

  uint32_t blocks_of(std::span<const Token> tokens) const {
    return static_cast<uint32_t>(tokens.size() / block_tokens_);
  }
  uint32_t common_blocks(std::span<const Token> a, std::span<const Token> b) const;
  Claims::iterator end_claim(Claims::iterator claim);
  Waits::iterator end_wait(Waits::iterator wait);
  void drop_late(uint64_t now_ns);
  // Ends the waits for a block of these tokens.
  void stir(Root root, std::span<const Token> tokens);

  const uint32_t block_tokens_;
  const FlightLimits limits_;
  std::unordered_map<uint64_t, Owner> owners_;
  Claims claims_;
  Waits waits_;
  uint64_t last_claim_ = 0;
};

}  // namespace rhizome
