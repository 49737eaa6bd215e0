// A tier: a place below memory that keeps images of blocks under their keys. Disk, Redis, S3 and peers are tiers.
//
// Many requests are submitted at once and collected as they are done, in any order. A tier never calls its user, and
// its user never waits for it but in collect(). Two requests for one key that are under way together may be done in
// either order.
//
// Rules that tier_contract_fixture.h tests with every tier:
//
//   1. submit() takes requests from the front until its queue is full (busy), and does not wait.
//   2. Each request that was taken is collected exactly once.
//   3. Its buffers belong to the tier until then, also when it is late or cancelled: a device may still write to them.
//   4. A read that is kDone has the bytes of one write under its key, whole: of the last one that was kDone before the
//      read was submitted, or of one that was under way since. It lies at `offset` in the buffer, of which the rest,
//      and after any other outcome all, holds anything once the buffer is longer than the image and as
//      read_room_bytes() wants it; one that is not is left alone behind the image.
//   5. A tier may forget what it keeps at any time. It keeps no more than its limit.
//   6. A request that has not begun by its deadline is not begun. One that has may still end as kDone, kLate or
//      kFailed, as soon as the device lets go of its buffers.
//
// Thread-safety: any thread may call anything at any time; a completion goes to whoever collects it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "block/block_key.h"
#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

enum class TierOperation : uint8_t { kFind, kRead, kWrite, kRemove };

enum class TierOutcome : uint8_t {
  kDone,
  kMissing,    // find, read, remove: there is nothing under the key
  kTooSmall,   // read: the buffer; `bytes` is what it takes
  kRefused,    // write: empty, too large, or not wanted now
  kLate,       // the deadline has passed
  kCancelled,  // before it began
  kFailed,     // `error` says how
};

// "done", "missing", ...: the label in metrics.
std::string_view tier_outcome_name(TierOutcome outcome);

struct TierRequest {
  uint64_t tag = 0;  // the caller's; no two requests under way have the same
  TierOperation operation = TierOperation::kFind;
  BlockKey key;
  std::span<std::byte> into = {};        // read
  std::span<const std::byte> from = {};  // write
  uint64_t deadline_ns = UINT64_MAX;     // of the tier's clock
};

struct TierCompletion {
  uint64_t tag = 0;
  TierOutcome outcome = TierOutcome::kFailed;
  uint64_t bytes = 0;   // of the image: found, read or written
  uint64_t offset = 0;  // read: where in `into` the image begins
  Error error = {};
};

struct TierUsage {
  uint64_t bytes = 0;
  uint64_t bytes_max = 0;
  uint64_t images = 0;
  uint64_t requests = 0;  // taken and not collected
  uint64_t requests_max = 0;
};

// An image that was there when the tier was opened: what a former process left.
struct RecoveredBlock {
  BlockKey key;
  BlockKey parent;
  uint32_t position = 0;    // of the block's first token
  bool is_partial = false;  // less than a block
  uint64_t image_bytes = 0;
  std::span<const Token> tokens = {};
};

class Tier {
 public:
  virtual ~Tier() = default;  // waits until no buffer is in use; what was not collected is lost

  virtual std::string_view name() const = 0;
  // How long a buffer has to be, and begin at a multiple of 4096, for an image of so many bytes to be read into it
  // without a copy in between. A shorter one will do: the image's own length is enough.
  virtual uint64_t read_room_bytes(uint64_t image_bytes) const { return image_bytes; }
  // How many requests were taken, from the front.
  virtual size_t submit(std::span<const TierRequest> requests) = 0;
  // What is done, up to out.size(). Waits at most `wait_ns` for the first, and not at all when nothing is under way.
  virtual size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) = 0;
  // True: the request had not begun and will be collected as kCancelled.
  virtual bool cancel(uint64_t tag) = 0;
  virtual TierUsage usage() const = 0;

  // Makes what was written last the longest, and waits for it at most that long: before the process ends.
  virtual void settle(uint64_t) {}
  // Whether a read that is done has been compared with a checksum of the tier's own; else the image's digest has to be.
  virtual bool verifies_reads() const { return false; }
  // Keys of images that the tier dropped by itself, to make room or because they did not verify; each once. A key may
  // have been written again since. False in `is_complete`: it lost count; find says what is there.
  virtual size_t collect_forgotten(std::span<BlockKey>, bool& is_complete) {
    is_complete = true;
    return 0;
  }
  // The images of a keyspace that were there at start, and whose identity was legible: parents before their children,
  // no child without its parent. Tokens are valid during the call. May be called until forget_recovered().
  virtual void for_each_recovered(const Digest&, const std::function<void(const RecoveredBlock&)>&) {}
  // Gives the memory of a keyspace's identities back: whoever wanted them has them.
  virtual void forget_recovered(const Digest&) {}
  // The same for others, until no more than so many bytes are kept. Images stay; the next start finds their identities.
  virtual void bound_recovered(uint64_t) {}
  virtual uint64_t recovered_bytes() const { return 0; }

 protected:
  Tier() = default;
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;
};

}  // namespace rhizome
