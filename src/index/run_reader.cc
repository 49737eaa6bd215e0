#include "index/run_reader.h"

#include "concurrency/race_point.h"
#include "concurrency/spin.h"

namespace rhizome {

bool RunReader::read(RunId id, RunView& out) const {
  if (!contains(id, 1)) return false;
  const Run& run = at(id);
  Spin spin;
  for (int tries = 0; tries < kReadTriesMax; ++tries) {
    const uint32_t ver = run.ver.load(std::memory_order_acquire);  // pairs with the last store of a change
    if (ver % 2 != 0) {
      // A free place; only what is being changed is worth a wait.
      if (RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kDead)) return false;
      spin.wait();
      continue;
    }
    // Acquire: if one of these is from a change that has begun, the load of ver below sees that it has. The word's
    // also pairs with the release that made a run longer: its blocks are filled.
    out.start = run.start.load(std::memory_order_acquire);
    out.parent = run.parent.load(std::memory_order_acquire);
    if (out.parent != 0) RHIZOME_RACE_POINT("index.read.half_way");
    out.owner = run.owner.load(std::memory_order_acquire);
    out.base = run.base.load(std::memory_order_acquire);
    out.capacity = run.capacity.load(std::memory_order_acquire);
    out.word = RunWord(run.word.load(std::memory_order_acquire));
    if (run.ver.load(std::memory_order_relaxed) != ver) continue;
    out.id = id;
    out.ver = ver;
    if (out.length() == 0) return out.word.has(RunWord::kRoot);
    return uint64_t{out.base} + out.length() <= out.capacity && contains(out.owner, units_for(out.capacity));
  }
  return false;
}

bool RunReader::read_child(RunId id, RunId parent, uint32_t depth, RunView& out) const {
  // A split may have moved the child down since its number was read: then it is above.
  constexpr int kSplitsMax = 16;
  for (int splits = 0; splits < kSplitsMax; ++splits) {
    if (!read(id, out) || out.word.has(RunWord::kDead | RunWord::kRoot)) return false;
    if (out.start == depth) return out.parent == parent;
    if (out.start < depth) return false;
    id = out.parent;
  }
  return false;
}

bool RunReader::read_above(RunId id, uint32_t depth, RunView& out) const {
  for (uint32_t before = UINT32_MAX;; before = out.start) {
    if (!read(id, out)) return false;
    if (out.word.has(RunWord::kRoot)) return out.start == 0;
    if (out.start < depth) return true;
    // A parent begins before its child: what says otherwise would lead in circles.
    if (out.start >= before) return false;
    id = out.parent;
  }
}

}  // namespace rhizome
