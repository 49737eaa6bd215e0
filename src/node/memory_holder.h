// Who holds the descriptors of a node's memory under labels, beyond the node's death, and gives them to the next one:
// the keeper, or the supervisor of the service that the node is.
//
// Thread-safety: from any thread, but claim() and end().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/result.h"
#include "machine/descriptor.h"
#include "machine/supervisor.h"
#include "node/keeper.h"

namespace rhizome {

class MemoryHolder {
 public:
  struct Held {
    std::vector<std::byte> label;
    Descriptor descriptor;
  };

  virtual ~MemoryHolder() = default;
  // All that it holds, which it goes on holding. Once, before anything else.
  virtual Result<std::vector<Held>> claim() = 0;
  // Labels are no longer than kKeeperLabelBytesMax. After an error nothing is held or dropped any more.
  virtual Status hold(std::span<const std::byte> label, int descriptor) = 0;
  virtual Status drop(std::span<const std::byte> label) = 0;
  // False: it is gone.
  virtual bool is_there() = 0;
  // Nobody is to come: all that it holds goes.
  virtual void end() = 0;
};

// Reaches the keeper, starting one where there is none. Errors: there is no keeper.
Result<std::unique_ptr<MemoryHolder>> reach_keeper(const KeeperOptions& options);

// Errors: of connect_to_supervisor(); kFailedPrecondition: it holds no descriptors.
Result<std::unique_ptr<MemoryHolder>> reach_supervisor(Supervision supervision);

}  // namespace rhizome
