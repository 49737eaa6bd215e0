#include "index/run_tree.h"

#include <algorithm>
#include <cstring>

#include "block/checksum.h"
#include "contract/check.h"

namespace rhizome {
namespace {

// So many stored continuations are compared to say where a prompt diverged from them.
constexpr int kSiblingsCompared = 32;

uint64_t edge_hash(RunId run, std::span<const Token> block) {
  // The finalizer of splitmix64: the table uses the low bits.
  uint64_t x = checksum(std::as_bytes(block)) + run * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool same(std::span<const Token> a, std::span<const Token> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

size_t common_tokens(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

RunTree::RunTree(uint32_t block_tokens, EdgeHash* hash)
    : block_tokens_(block_tokens), hash_(hash != nullptr ? hash : edge_hash), branches_(runs_), held_blocks_(1, 0) {
  runs_.push_back(nullptr);  // number 0 is none
}

RunId RunTree::add_root(uint32_t ordinal) {
  RHIZOME_CHECK(ordinal == held_blocks_.size());
  held_blocks_.push_back(0);
  ++usage_.roots;
  const RunId id = add_run();
  at(id).root = ordinal;
  return id;
}

RunTree::Place RunTree::walk(Place from, std::span<const Token> tokens) const {
  const uint32_t blocks = static_cast<uint32_t>(tokens.size() / block_tokens_);
  Place place = from;
  while (place.depth < blocks) {
    if (place.depth == at(place.run).end()) {
      const RunId child = find_child(place.run, tokens.subspan(size_t{place.depth} * block_tokens_, block_tokens_));
      if (child == 0) break;
      place.run = child;
    }
    const Run& run = at(place.run);
    const uint32_t compared = std::min(run.end(), blocks) - place.depth;
    const auto stored = run.tokens(block_tokens_).subspan(size_t{place.depth - run.start} * block_tokens_);
    const auto asked = tokens.subspan(size_t{place.depth} * block_tokens_);
    uint32_t equal = 0;
    while (equal < compared && same(asked.subspan(size_t{equal} * block_tokens_, block_tokens_),
                                    stored.subspan(size_t{equal} * block_tokens_, block_tokens_))) {
      ++equal;
    }
    place.depth += equal;
    if (equal < compared) break;
  }
  return place;
}

Reason RunTree::why_stopped(Place place, std::span<const Token> tokens, uint64_t& stopped_at) const {
  stopped_at = uint64_t{place.depth} * block_tokens_;
  const size_t missing = tokens.size() - stopped_at;
  if (missing == 0) return Reason::kFull;
  if (missing < block_tokens_) return Reason::kPartialBlock;
  if (place.depth == 0) return Reason::kNeverStored;
  const auto block = tokens.subspan(stopped_at, block_tokens_);
  const Run& run = at(place.run);
  if (place.depth < run.end()) {
    stopped_at +=
        common_tokens(block, run.tokens(block_tokens_).subspan(stopped_at - size_t{run.start} * block_tokens_));
    return Reason::kDiverged;
  }
  if (run.first_child == 0) return Reason::kNeverStored;
  size_t common = 0;
  RunId child = run.first_child;
  for (int i = 0; i < kSiblingsCompared && child != 0; ++i, child = at(child).next_sibling) {
    common = std::max(common, common_tokens(block, at(child).tokens(block_tokens_)));
  }
  stopped_at += common;
  return Reason::kDiverged;
}

RunTree::Place RunTree::nearest_live(Place place, uint32_t depth_max) const {
  place.depth = std::min(place.depth, depth_max);
  for (const Run* run = &at(place.run); run->parent != 0; run = &at(place.run)) {
    if (run->dead) place.depth = std::min(place.depth, run->start);
    if (!run->dead && place.depth > run->start) break;
    place.run = run->parent;
  }
  return place;
}

void RunTree::copy_locations(Place place, uint32_t first, std::span<Location> out) const {
  uint32_t end = std::min(place.depth, first + static_cast<uint32_t>(out.size()));
  for (RunId id = place.run; id != 0 && end > first; id = at(id).parent) {
    const Run& run = at(id);
    const uint32_t begin = std::max(first, run.start);
    if (begin >= end) continue;
    const auto locations = run.locations(block_tokens_).subspan(begin - run.start, end - begin);
    std::copy(locations.begin(), locations.end(), out.begin() + (begin - first));
    end = begin;
  }
}

RunTree::Attached RunTree::attach(Place place, RunId own, std::span<const Token> tokens,
                                  std::span<const Location> locations) {
  Attached attached;
  const uint32_t added = static_cast<uint32_t>(locations.size());
  if (place.depth < at(place.run).end()) {
    attached.split_at = place.depth;
    place.run = split(place.run, place.depth - at(place.run).start);
  }
  Run& above = at(place.run);
  const bool others = above.handles > (place.run == own ? 1u : 0u);
  usage_.blocks += added;
  if (above.parent != 0 && above.children == 0 && !others) {
    above.append(tokens, locations, block_tokens_);
    if (above.held()) held_blocks_[above.root] += added;
    attached.place = {place.run, above.end()};
    return attached;
  }
  const RunId id = add_run();
  Run& run = at(id);
  run.parent = place.run;
  run.root = at(place.run).root;
  run.start = place.depth;
  run.append(tokens, locations, block_tokens_);
  set_idle(place.run, false);
  ++at(place.run).children;
  link(id);
  set_idle(id, true);
  attached.place = {id, run.end()};
  return attached;
}

bool RunTree::is_pinned(RunId id) const {
  return id < runs_.size() && runs_[id] != nullptr && at(id).handles > 0;
}

void RunTree::pin(RunId id) {
  Run& run = at(id);
  if (!run.held()) hold(id);
  set_idle(id, false);
  ++run.handles;
  ++usage_.handles;
}

void RunTree::unpin(RunId id) {
  Run& run = at(id);
  RHIZOME_CHECK(run.handles > 0);
  --run.handles;
  --usage_.handles;
  if (!run.held()) unhold(id);
  if (!run.idle()) return;
  if (run.dead) {
    bury(id);
  } else {
    set_idle(id, true);
  }
}

size_t RunTree::evict(std::span<Location> out) {
  size_t taken = 0;
  while (taken < out.size() && !idle_.empty()) {
    const RunId id = idle_.begin()->second;
    Run& run = at(id);
    const auto locations = run.locations(block_tokens_);
    const uint32_t count = static_cast<uint32_t>(std::min<size_t>(run.length(), out.size() - taken));
    std::reverse_copy(locations.end() - count, locations.end(), out.begin() + static_cast<std::ptrdiff_t>(taken));
    taken += count;
    usage_.blocks -= count;
    if (count < run.length()) {
      run.keep(0, run.length() - count, block_tokens_);
      break;
    }
    set_idle(id, false);
    const RunId parent = run.parent;
    const uint64_t touch = run.touch;
    unlink(id);
    drop_run(id);
    child_gone(parent, touch);
  }
  return taken;
}

size_t RunTree::remove(Place place, uint32_t first) {
  RunId top = place.run;
  while (first < at(top).start)
    top = at(top).parent;
  if (at(top).dead) return 0;
  RHIZOME_CHECK(first < at(top).end());
  if (first > at(top).start) split(top, first - at(top).start);
  std::vector<RunId> doomed{top};
  size_t blocks = 0;
  for (size_t i = 0; i < doomed.size(); ++i) {
    for (RunId child = at(doomed[i]).first_child; child != 0; child = at(child).next_sibling)
      doomed.push_back(child);
  }
  for (const RunId id : doomed) {
    blocks += at(id).length();
    set_idle(id, false);
    at(id).dead = true;
    if (id == top) {
      unlink(id);
    } else {
      branches_.take_out(id);
    }
  }
  usage_.blocks -= blocks;
  usage_.removed_blocks += blocks;
  // Parents stand before their children in the list: from the end, each is buried after what it keeps.
  for (size_t i = doomed.size(); i-- > 0;) {
    if (runs_[doomed[i]] != nullptr && at(doomed[i]).idle()) bury(doomed[i]);
  }
  return blocks;
}

size_t RunTree::reap(std::span<Location> out) {
  const size_t count = std::min(out.size(), orphans_.size());
  std::copy(orphans_.end() - static_cast<std::ptrdiff_t>(count), orphans_.end(), out.begin());
  orphans_.resize(orphans_.size() - count);
  usage_.removed_blocks -= count;
  if (orphans_.empty()) orphans_.shrink_to_fit();
  return count;
}

RunId RunTree::add_run() {
  ++usage_.runs;
  if (unused_.empty()) {
    runs_.push_back(std::make_unique<Run>());
    return static_cast<RunId>(runs_.size() - 1);
  }
  const RunId id = unused_.back();
  unused_.pop_back();
  runs_[id] = std::make_unique<Run>();
  return id;
}

void RunTree::drop_run(RunId id) {
  RHIZOME_CHECK(at(id).idle() && !at(id).held());
  runs_[id].reset();
  unused_.push_back(id);
  --usage_.runs;
}

RunId RunTree::find_child(RunId parent, std::span<const Token> block) const {
  const uint64_t hash = hash_(parent, block);
  for (RunId id = branches_.chain(hash); id != 0; id = at(id).next_in_bucket) {
    const Run& run = at(id);
    if (run.hash == hash && run.parent == parent && same(run.tokens(block_tokens_).first(block_tokens_), block)) {
      return id;
    }
  }
  return 0;
}

void RunTree::link(RunId child) {
  Run& run = at(child);
  Run& parent = at(run.parent);
  run.hash = hash_(run.parent, run.tokens(block_tokens_).first(block_tokens_));
  branches_.add(child);
  run.previous_sibling = 0;
  run.next_sibling = parent.first_child;
  if (run.next_sibling != 0) at(run.next_sibling).previous_sibling = child;
  parent.first_child = child;
}

void RunTree::unlink(RunId child) {
  Run& run = at(child);
  branches_.take_out(child);
  if (run.next_sibling != 0) at(run.next_sibling).previous_sibling = run.previous_sibling;
  if (run.previous_sibling != 0) {
    at(run.previous_sibling).next_sibling = run.next_sibling;
  } else {
    at(run.parent).first_child = run.next_sibling;
  }
  run.next_sibling = 0;
  run.previous_sibling = 0;
}

// The part behind keeps its number: handles on it and runs below it stay as they are.
RunId RunTree::split(RunId id, uint32_t offset) {
  const RunId front_id = add_run();
  Run& back = at(id);
  Run& front = at(front_id);
  RHIZOME_CHECK(offset > 0 && offset < back.length());
  unlink(id);
  front.parent = back.parent;
  front.root = back.root;
  front.start = back.start;
  front.touch = back.touch;
  front.children = 1;
  front.held_children = back.held() ? 1 : 0;
  front.append(back.tokens(block_tokens_).first(size_t{offset} * block_tokens_),
               back.locations(block_tokens_).first(offset), block_tokens_);
  back.keep(offset, back.length() - offset, block_tokens_);
  back.start += offset;
  back.parent = front_id;
  link(front_id);
  link(id);
  return front_id;
}

// Called when the run had no handle at or below it and is about to get one.
void RunTree::hold(RunId id) {
  while (id != 0) {
    Run& run = at(id);
    held_blocks_[run.root] += run.length();
    if (run.parent == 0) return;
    const bool held_before = at(run.parent).held();
    ++at(run.parent).held_children;
    if (held_before) return;
    id = run.parent;
  }
}

// Called when the run has lost the last handle at or below it.
void RunTree::unhold(RunId id) {
  while (id != 0) {
    Run& run = at(id);
    held_blocks_[run.root] -= run.length();
    if (run.parent == 0) return;
    --at(run.parent).held_children;
    if (at(run.parent).held()) return;
    id = run.parent;
  }
}

void RunTree::set_idle(RunId id, bool idle) {
  const Run& run = at(id);
  if (run.parent == 0 || run.dead || !run.idle()) return;
  if (idle) {
    idle_.emplace(run.touch, id);
  } else {
    idle_.erase({run.touch, id});
  }
}

void RunTree::child_gone(RunId parent, uint64_t child_touch) {
  --at(parent).children;
  // The parent was used whenever its child was, but look-ups touch only their deepest run.
  at(parent).touch = std::max(at(parent).touch, child_touch);
  set_idle(parent, true);
}

// Ends a dead run that nothing pins, and the dead ones above it that it was the last to pin.
void RunTree::bury(RunId id) {
  for (;;) {
    const auto locations = at(id).locations(block_tokens_);
    orphans_.insert(orphans_.end(), locations.begin(), locations.end());
    const RunId parent = at(id).parent;
    const uint64_t touch = at(id).touch;
    drop_run(id);
    child_gone(parent, touch);
    if (!at(parent).dead || !at(parent).idle()) return;
    id = parent;
  }
}

}  // namespace rhizome
