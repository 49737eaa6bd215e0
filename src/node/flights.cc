#include "node/flights.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"

namespace rhizome {

void Flights::enter(uint64_t owner, std::function<void()> stir) {
  const bool is_new = owners_.emplace(owner, Owner{.stir = std::move(stir)}).second;
  RHIZOME_CHECK(is_new);
}

void Flights::leave(uint64_t owner) {
  if (!owners_.contains(owner)) return;
  // Its waits first: it need not hear of the end of its own claims.
  for (auto wait = waits_.begin(); wait != waits_.end();)
    wait = wait->owner == owner ? end_wait(wait) : std::next(wait);
  for (auto claim = claims_.begin(); claim != claims_.end();)
    claim = claim->owner == owner ? end_claim(claim) : std::next(claim);
  owners_.erase(owner);
}

uint32_t Flights::common_blocks(std::span<const Token> a, std::span<const Token> b) const {
  return static_cast<uint32_t>(static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin()) / block_tokens_);
}

Flights::Claims::iterator Flights::end_claim(Claims::iterator claim) {
  Owner& owner = owners_.at(claim->owner);
  --owner.claims;
  owner.tokens -= claim->tokens.size();
  const Claimed over = std::move(*claim);
  const auto next = claims_.erase(claim);
  stir(over.root, over.tokens);
  return next;
}

Flights::Waits::iterator Flights::end_wait(Waits::iterator wait) {
  Owner& owner = owners_.at(wait->owner);
  --owner.waits;
  owner.tokens -= wait->tokens.size();
  return waits_.erase(wait);
}

void Flights::drop_late(uint64_t now_ns) {
  for (auto claim = claims_.begin(); claim != claims_.end();)
    claim = claim->until_ns <= now_ns ? end_claim(claim) : std::next(claim);
}

void Flights::stir(Root root, std::span<const Token> tokens) {
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    const bool concerns = wait->root == root && common_blocks(wait->tokens, tokens) == blocks_of(wait->tokens);
    if (!concerns) {
      ++wait;
      continue;
    }
    const uint64_t owner = wait->owner;
    wait = end_wait(wait);
    owners_.at(owner).stir();
  }
}

Result<Flights::Announced> Flights::announce(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t first,
                                             uint64_t patience_ns, uint64_t now_ns) {
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return fail(Code::kNotFound, "nobody of that number");
  uint32_t end = blocks_of(tokens);
  if (first >= end) return fail(Code::kInvalidArgument, "no blocks to announce");
  drop_late(now_ns);
  for (const Claimed& claim : claims_) {
    if (claim.root != root) continue;
    const uint32_t common = common_blocks(claim.tokens, tokens);
    if (common <= std::max(first, claim.first)) continue;
    if (claim.first <= first) return Announced{.end = common, .until_ns = claim.until_ns};
    end = std::min(end, claim.first);
  }
  const auto claimed = tokens.first(size_t{end} * block_tokens_);
  Owner& own = found->second;
  if (claims_.size() >= limits_.claims_max || own.claims >= limits_.claims_of_owner_max ||
      claimed.size() > limits_.tokens_of_owner_max - own.tokens) {
    return fail(Code::kResourceExhausted, "too much is being computed");
  }
  ++own.claims;
  own.tokens += claimed.size();
  patience_ns = std::min(patience_ns, limits_.patience_max_ns);
  const uint64_t until_ns = now_ns + patience_ns;
  claims_.push_back({.id = ++last_claim_,
                     .owner = owner,
                     .root = root,
                     .tokens = {claimed.begin(), claimed.end()},
                     .first = first,
                     .patience_ns = patience_ns,
                     .until_ns = until_ns});
  return Announced{.claim = last_claim_, .end = end, .until_ns = until_ns};
}

void Flights::withdraw(uint64_t owner, uint64_t claim) {
  const auto found =
      std::ranges::find_if(claims_, [&](const Claimed& each) { return each.id == claim && each.owner == owner; });
  if (found != claims_.end()) end_claim(found);
}

void Flights::committed(uint64_t owner, Root root, std::span<const Token> tokens, uint64_t now_ns) {
  for (auto claim = claims_.begin(); claim != claims_.end();) {
    const uint32_t common = claim->owner == owner && claim->root == root ? common_blocks(claim->tokens, tokens) : 0;
    if (common > claim->first) {
      claim->first = common;
      claim->until_ns = now_ns + claim->patience_ns;
    }
    claim = common == blocks_of(claim->tokens) ? end_claim(claim) : std::next(claim);
  }
  stir(root, tokens);
}

std::optional<uint64_t> Flights::computed_until(Root root, std::span<const Token> tokens, uint32_t block,
                                                uint64_t now_ns) {
  drop_late(now_ns);
  for (const Claimed& claim : claims_) {
    if (claim.root == root && claim.first <= block && common_blocks(claim.tokens, tokens) > block)
      return claim.until_ns;
  }
  return std::nullopt;
}

bool Flights::is_computed_by_others(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t block,
                                    uint64_t now_ns) {
  drop_late(now_ns);
  return std::ranges::any_of(claims_, [&](const Claimed& claim) {
    return claim.owner != owner && claim.root == root && claim.first <= block &&
           common_blocks(claim.tokens, tokens) > block;
  });
}

Status Flights::wait(uint64_t owner, Root root, std::span<const Token> tokens, uint32_t block, uint64_t until_ns,
                     uint64_t now_ns) {
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return fail(Code::kNotFound, "nobody of that number");
  if (block >= blocks_of(tokens)) return fail(Code::kInvalidArgument, "no block to wait for");
  const auto awaited = tokens.first((size_t{block} + 1) * block_tokens_);
  until_ns = std::min(until_ns, now_ns + limits_.patience_max_ns);
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    if (wait->until_ns <= now_ns) {
      wait = end_wait(wait);
      continue;
    }
    if (wait->owner == owner && wait->root == root && std::ranges::equal(wait->tokens, awaited)) {
      wait->until_ns = std::max(wait->until_ns, until_ns);
      return {};
    }
    ++wait;
  }
  Owner& own = found->second;
  if (own.waits >= limits_.waits_of_owner_max || awaited.size() > limits_.tokens_of_owner_max - own.tokens) {
    return fail(Code::kResourceExhausted, "too many waits");
  }
  ++own.waits;
  own.tokens += awaited.size();
  waits_.push_back({.owner = owner, .root = root, .tokens = {awaited.begin(), awaited.end()}, .until_ns = until_ns});
  return {};
}

}  // namespace rhizome
