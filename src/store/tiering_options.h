// How a store uses the tier below it.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

#include "machine/clock.h"
#include "residency/admission.h"
#include "residency/watermarks.h"

namespace rhizome {

struct TieringOptions {
  AdmissionOptions admission = {};
  // A block that was loaded stays in the tier, too; else it moves, and is written again when it leaves.
  bool is_inclusive = true;
  // 90 and 70 are KV-Cache Fabric's; the default keeps a small reserve.
  Watermarks watermarks = {.high = 98, .low = 97};
  uint64_t staging_bytes = 0;  // of I/O buffers; 0: a share of the memory budget
  // How long a reader waits for a load before costs are known.
  uint64_t load_wait_ns = 5000000000;
  // False: nobody works but who calls step() or waits (tests).
  bool background = true;
  Clock* clock = nullptr;  // nullptr: the machine's; outlives the store
};

}  // namespace rhizome
