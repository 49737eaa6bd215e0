// Tombstones: which blocks were evicted last, so that a miss can say so. A bounded table; the newest overwrites the
// oldest of the few that share its place.
//
// Thread-safety: bury() is the evictor's; find() from any thread. An entry is told by its edge, written last and read
// first and last: a reader sees a whole one or none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace rhizome {

struct Tombstone {
  uint64_t when = 0;   // tick
  uint32_t depth = 0;  // of the first block that is gone
  uint32_t ver = 0;    // of the run that the edge leads on from: another one means another run, or a split since
};

class Tombstones {
 public:
  // `edge` leads from what is still stored to the first block that is not.
  void bury(uint64_t edge, const Tombstone& tombstone) {
    Group& group = groups_[edge % kGroups];
    Entry* oldest = &group.entries[0];
    for (Entry& entry : group.entries) {
      if (entry.edge.load(std::memory_order_relaxed) == edge) {
        oldest = &entry;
        break;
      }
      if (entry.when.load(std::memory_order_relaxed) < oldest->when.load(std::memory_order_relaxed)) oldest = &entry;
    }
    oldest->edge.store(0, std::memory_order_release);
    oldest->when.store(tombstone.when, std::memory_order_release);
    oldest->depth.store(tombstone.depth, std::memory_order_release);
    oldest->ver.store(tombstone.ver, std::memory_order_release);
    oldest->edge.store(edge, std::memory_order_release);  // pairs with the first acquire in find()
  }

  bool find(uint64_t edge, uint32_t depth, uint32_t ver, Tombstone& out) const {
    for (const Entry& entry : groups_[edge % kGroups].entries) {
      if (entry.edge.load(std::memory_order_acquire) != edge) continue;  // pairs with the last store of bury()
      out.when = entry.when.load(std::memory_order_acquire);
      out.depth = entry.depth.load(std::memory_order_acquire);
      out.ver = entry.ver.load(std::memory_order_acquire);
      if (entry.edge.load(std::memory_order_relaxed) == edge && out.depth == depth && out.ver == ver) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kGroups = 256;
  struct Entry {
    std::atomic<uint64_t> edge{0};
    std::atomic<uint64_t> when{0};
    std::atomic<uint32_t> depth{0};
    std::atomic<uint32_t> ver{0};
  };
  struct Group {
    std::array<Entry, 4> entries;
  };

  std::vector<Group> groups_{kGroups};
};

}  // namespace rhizome
