// Work with servers that Ctrl-C ends in order.
//
// Thread-safety: one call at a time, from the thread that made the SignalWait.
#pragma once

#include <functional>

#include "bench/server_process.h"
#include "contract/result.h"
#include "machine/process.h"

namespace rhizome::bench {

// Runs `work` on a thread of its own, to its end. SIGINT or SIGTERM meanwhile stops the fleet's servers, so that the
// requests that wait for them fail: ask the fleet whether it was interrupted. Fails when no thread starts.
Status run_watched(Fleet& fleet, SignalWait& signals, const std::function<void()>& work);

}  // namespace rhizome::bench
