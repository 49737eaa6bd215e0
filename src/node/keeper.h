// The keeper: a process that outlives a node and holds the descriptors of its memory for the next one, so that a node
// that was killed, or crashed, starts again with its committed blocks warm.
//
// It has one thread, looks into nothing that it holds, and understands four messages on a socket in the node's folder:
// hold this under a label, drop what is under a label, give me all that there is, and end. Labels are a few bytes whose
// meaning is the node's alone (node/keeper_link.h). It serves one node at a time, of its own user. It ends when a node
// says so, when none has come for some time, and when its socket's name is gone: nothing of a dead node is left behind
// for longer.
//
// Thread-safety: run_keeper() is all that its process does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "contract/result.h"
#include "machine/supervisor.h"

namespace rhizome {

inline constexpr uint64_t kKeeperWaitNs = 600'000'000'000;
inline constexpr size_t kKeeperLabelBytesMax = 256;

// How a node comes by a keeper.
struct KeeperOptions {
  std::string socket_path = {};  // empty: there is none, and memory ends with the node
  // Starts a process that calls run_keeper() with that path, where none is there yet.
  std::vector<std::string> command = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  // Where it holds descriptors, it is used in place of a keeper.
  Supervision supervision = {};
};

// The messages: a verb, and what follows it.
enum class KeeperVerb : uint8_t {
  kHold = 1,   // either way; a label, and one descriptor
  kDrop = 2,   // to the keeper; a label
  kClaim = 3,  // to the keeper, which says kHold for each piece, and kEnd
  kEnd = 4,    // to the keeper: it ends. From it: that was all
};

// Until the keeper has nothing to do any more, `wait_ns` after the last node has gone, sooner when it holds nothing.
// Errors: of LocalListener::listen().
Status run_keeper(const std::string& socket_path, uint64_t wait_ns = kKeeperWaitNs);

}  // namespace rhizome
