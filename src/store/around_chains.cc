#include "store/around_chains.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"

namespace rhizome {

uint64_t AroundChains::add(Chain chain) {
  const MutexLock lock(mutex_);
  Entry entry;
  entry.number = ++last_;
  entry.fates.assign(chain.keys.size(), Fate::kUnderWay);
  entry.locations.resize(chain.keys.size());
  entry.chain = std::move(chain);
  blocks_ += entry.fates.size();
  entries_.push_back(std::move(entry));
  return last_;
}

void AroundChains::end(Ticket ticket, std::optional<Location> location) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(entries_, ticket.chain, &Entry::number);
  RHIZOME_CHECK(found != entries_.end());
  RHIZOME_CHECK(found->fates[ticket.block] == Fate::kUnderWay);
  found->fates[ticket.block] = location ? Fate::kInTier : Fate::kLost;
  if (location) found->locations[ticket.block] = *location;
}

bool AroundChains::is_under_way(const BlockKey& key, uint64_t now_ns) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    if (entry.is_lost || now_ns >= entry.chain.deadline_ns) return false;
    // What is behind a block that is lost will not come.
    for (size_t i = entry.next; i < entry.fates.size() && entry.fates[i] != Fate::kLost; ++i) {
      if (entry.chain.keys[i] == key) return true;
    }
    return false;
  });
}

size_t AroundChains::blocks() const {
  const MutexLock lock(mutex_);
  return blocks_;
}

bool AroundChains::holds(const BlockKey& key) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    if (entry.is_lost) return false;
    const auto begin = entry.chain.keys.begin() + static_cast<std::ptrdiff_t>(entry.next);
    return std::find(begin, entry.chain.keys.end(), key) != entry.chain.keys.end();
  });
}

size_t AroundChains::resolve(const Publish& publish, const Lose& lose) {
  // Held across the calls back: what continues a chain must find it published or lost, never half.
  const MutexLock lock(mutex_);
  size_t resolved = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    resolved += resolve(*entry, publish, lose);
    const bool is_over = std::ranges::all_of(entry->fates, [](Fate fate) { return fate == Fate::kResolved; });
    entry = is_over ? entries_.erase(entry) : std::next(entry);
  }
  blocks_ -= resolved;
  return resolved;
}

size_t AroundChains::resolve(Entry& entry, const Publish& publish, const Lose& lose) {
  size_t resolved = 0;
  // It continues a chain of which nobody knows yet what becomes of it.
  if (!entry.is_lost && entry.next == 0 && holds(entry.chain.parent)) return 0;
  uint32_t end = entry.next;
  while (!entry.is_lost && end < entry.fates.size() && entry.fates[end] == Fate::kInTier)
    ++end;
  if (end > entry.next) {
    const auto ready = std::span<const Location>(entry.locations).subspan(entry.next, end - entry.next);
    if (publish(entry.chain, entry.next, ready)) {
      std::fill(entry.fates.begin() + entry.next, entry.fates.begin() + end, Fate::kResolved);
      resolved += end - entry.next;
      entry.next = end;
    } else {
      entry.is_lost = true;
    }
  }
  if (entry.next < entry.fates.size() && entry.fates[entry.next] == Fate::kLost) entry.is_lost = true;
  if (!entry.is_lost) return resolved;
  for (size_t i = entry.next; i < entry.fates.size(); ++i) {
    if (entry.fates[i] == Fate::kInTier) lose(entry.locations[i]);
    if (entry.fates[i] != Fate::kInTier && entry.fates[i] != Fate::kLost) continue;
    entry.fates[i] = Fate::kResolved;
    ++resolved;
  }
  return resolved;
}

}  // namespace rhizome
