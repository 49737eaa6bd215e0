// Who is measured: `bench index` runs every case with each of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/contestant.h"
#include "bench/hash_map.h"
#include "bench/index_contestant.h"
#include "bench/lock_tree.h"

namespace rhizome::bench {

template <Contestant... Members>
struct ContestantList {
  static constexpr size_t kCount = sizeof...(Members);
  // Calls visit.operator()<Member>() for each, in order.
  template <class Visit>
  static void for_each(Visit&& visit) {
    (visit.template operator()<Members>(), ...);
  }
};

// The baselines first. A policy more is one line more.
template <uint32_t kBlock>
using Contestants = ContestantList<LockTree<kBlock>, HashMap<kBlock>, IndexContestant<FingerprintIndex, kBlock>,
                                   IndexContestant<Index, kBlock>>;

}  // namespace rhizome::bench
