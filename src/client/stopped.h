// The counter of rhizome_lookup_stopped_total for a reason.
#pragma once

#include "block/reason.h"
#include "telemetry/counters.h"

namespace rhizome {

Counter stopped_counter(Reason reason);

}  // namespace rhizome
