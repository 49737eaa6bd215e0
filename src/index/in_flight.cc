#include "index/in_flight.h"

#include <algorithm>

namespace rhizome {

template <class Element>
Result<uint64_t> InFlight<Element>::announce(Root root, std::span<const Element> elements, uint32_t first_block,
                                             uint64_t owner, uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  if (find(root, elements, first_block, clock_.monotonic_ns()) != nullptr)
    return fail(Code::kAlreadyExists, "somebody computes it already");
  if (claims_.size() >= kClaimsMax) return fail(Code::kResourceExhausted, "too much is in flight");
  claims_.push_back({++last_id_, root, {elements.begin(), elements.end()}, first_block, owner, deadline_ns});
  count_.store(claims_.size(), std::memory_order_relaxed);
  return last_id_;
}

template <class Element>
void InFlight<Element>::withdraw(uint64_t claim) {
  MutexLock lock(mutex_);
  claims_.remove_if([&](const Claimed& claimed) { return claimed.id == claim; });
  count_.store(claims_.size(), std::memory_order_relaxed);
  changed_.notify_all();
}

template <class Element>
size_t InFlight<Element>::withdraw_all(uint64_t owner) {
  MutexLock lock(mutex_);
  const size_t withdrawn = claims_.remove_if([&](const Claimed& claimed) { return claimed.owner == owner; });
  count_.store(claims_.size(), std::memory_order_relaxed);
  changed_.notify_all();
  return withdrawn;
}

template <class Element>
bool InFlight<Element>::covers(Root root, std::span<const Element> elements, uint32_t block) {
  if (!any()) return false;
  MutexLock lock(mutex_);
  return find(root, elements, block, clock_.monotonic_ns()) != nullptr;
}

template <class Element>
const typename InFlight<Element>::Claimed* InFlight<Element>::find(Root root, std::span<const Element> elements,
                                                                   uint32_t block, uint64_t now_ns) {
  claims_.remove_if([&](const Claimed& claimed) { return claimed.deadline_ns <= now_ns; });
  count_.store(claims_.size(), std::memory_order_relaxed);
  const size_t length = (size_t{block} + 1) * block_elements_;
  if (elements.size() < length) return nullptr;
  for (const Claimed& claimed : claims_) {
    if (claimed.root != root || block < claimed.first_block || claimed.elements.size() < length) continue;
    if (std::equal(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(length),
                   claimed.elements.begin())) {
      return &claimed;
    }
  }
  return nullptr;
}

template class InFlight<uint32_t>;
template class InFlight<uint64_t>;

}  // namespace rhizome
