#include "node/contexts.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "machine/random.h"

namespace rhizome {

size_t Contexts::counted_tokens(const Content& content) {
  return content.tokens.size() + (content.keyspace.size() + content.geometry.size()) / sizeof(Token);
}

// Looks at all of them, and at all of each handle: how long it takes says nothing about any. Handles are as good as
// passwords only within a domain, whose clients may read all that is in it anyway.
Contexts::Context* Contexts::find(const ContextHandle& handle) {
  Context* found = nullptr;
  for (Context& context : contexts_) {
    const uint64_t difference = (context.handle.high ^ handle.high) | (context.handle.low ^ handle.low);
    const bool is_taken = context.offer.terms.use == ContextUse::kMove && context.adopters > 0;
    if (difference == 0 && !context.is_over && !is_taken) found = &context;
  }
  return found;
}

Result<ContextHandle> Contexts::publish(uint64_t owner, Offer offer, uint64_t now_ns) {
  const ContextTerms& terms = offer.terms;
  if (terms.lifetime_ns == 0 || terms.lifetime_ns > limits_.lifetime_max_ns) {
    return fail(Code::kInvalidArgument, "a context's lifetime is more than nothing and at most ten minutes");
  }
  drop_late(now_ns);
  if (terms.outlives_publisher) owner = kNobody;
  uint32_t own_contexts = 0;
  size_t own_tokens = counted_tokens(offer.content);
  size_t all_tokens = own_tokens;
  for (const Context& context : contexts_) {
    const size_t tokens = counted_tokens(context.offer.content);
    all_tokens += tokens;
    if (context.owner != owner) continue;
    ++own_contexts;
    own_tokens += tokens;
  }
  if (contexts_.size() >= limits_.contexts_max || own_contexts >= limits_.contexts_of_owner_max ||
      all_tokens > limits_.tokens_max || own_tokens > limits_.tokens_of_owner_max) {
    return fail(Code::kResourceExhausted, "too many contexts are published, or too long ones");
  }
  ContextHandle handle;
  while (handle == ContextHandle())
    handle = {.high = random_u64(), .low = random_u64()};
  const uint64_t until_ns = now_ns + terms.lifetime_ns;
  contexts_.push_back({.handle = handle, .owner = owner, .until_ns = until_ns, .offer = std::move(offer)});
  return handle;
}

Status Contexts::unpublish(const ContextHandle& handle, uint64_t now_ns) {
  drop_late(now_ns);
  Context* const context = find(handle);
  if (context == nullptr) return fail(Code::kNotFound, "there is no such context");
  context->is_over = true;
  drop_over();
  return {};
}

Result<Contexts::Adoption> Contexts::begin_adoption(uint64_t owner, const ContextHandle& handle, uint64_t now_ns) {
  drop_late(now_ns);
  if (std::ranges::count(adoptions_, owner, &UnderWay::owner) >= limits_.adoptions_of_owner_max) {
    return fail(Code::kResourceExhausted, "too many adoptions are under way");
  }
  Context* const context = find(handle);
  if (context == nullptr) return fail(Code::kNotFound, "there is no such context");
  ++context->adopters;
  adoptions_.push_back({++last_adoption_, owner, context});
  return Adoption{.number = last_adoption_, .content = &context->offer.content, .blocks = context->offer.pins.blocks()};
}

void Contexts::give_up(const UnderWay& adoption) {
  RHIZOME_CHECK(adoption.context->adopters > 0);
  --adoption.context->adopters;
}

Status Contexts::end_adoption(uint64_t owner, uint64_t adoption, bool keeps) {
  const auto found = std::ranges::find_if(
      adoptions_, [&](const UnderWay& each) { return each.number == adoption && each.owner == owner; });
  if (found == adoptions_.end()) return fail(Code::kNotFound, "no adoption of that number is under way");
  Context& context = *found->context;
  give_up(*found);
  adoptions_.erase(found);
  if (keeps && context.offer.terms.use == ContextUse::kMove) context.is_over = true;
  drop_over();
  return {};
}

void Contexts::leave(uint64_t owner) {
  std::erase_if(adoptions_, [&](const UnderWay& adoption) {
    if (adoption.owner != owner) return false;
    give_up(adoption);
    return true;
  });
  for (Context& context : contexts_)
    context.is_over = context.is_over || context.owner == owner;
  drop_over();
}

void Contexts::drop_late(uint64_t now_ns) {
  for (Context& context : contexts_)
    context.is_over = context.is_over || context.until_ns <= now_ns;
  drop_over();
}

void Contexts::drop_over() {
  contexts_.remove_if([](const Context& context) { return context.is_over && context.adopters == 0; });
}

void Contexts::collect_runs(uint64_t owner, std::vector<RunId>& out) const {
  for (const Context& context : contexts_) {
    if (context.owner == owner) out.push_back(context.offer.run);
  }
  for (const UnderWay& adoption : adoptions_) {
    if (adoption.owner == owner) out.push_back(adoption.context->offer.run);
  }
}

}  // namespace rhizome
