// The index: which stretches of blocks are stored, and where. A tree of runs for each keyspace (run.h, run_tree.h).
//
// A handle pins the deepest run that a look-up reached, and through it all runs above (a child keeps its parent). What
// is pinned is never evicted. Handles stay valid when others split their run.
//
// Thread-safety: everything here may be called from any thread; a Handle belongs to one thread at a time. lookup(),
// peek(), resume() and release() take no lock and wait for nobody, nor does explain() while nothing is in flight;
// insert() waits for those that change the same run, and for remove(), close(), clear() and start_epoch(), which are
// rare; evict(), evict_if() and reap() wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "block/token.h"
#include "contract/result.h"
#include "index/index_types.h"

namespace rhizome {

class ExactPolicy;
class FingerprintPolicy;
class PrehashedPolicy;

template <class Policy>
struct ElementOf {
  using Type = Token;
};
template <>
struct ElementOf<PrehashedPolicy> {
  using Type = uint64_t;
};

// `Policy` says what a prompt consists of and how blocks are compared (policy.h). `Element` is a token, or a block's
// 64-bit hash for PrehashedPolicy, where "block_tokens elements" below means one.
template <class Policy>
class BasicIndex {
 public:
  using Element = typename ElementOf<Policy>::Type;

  // Aborts for a block size that is not 1 to 256.
  explicit BasicIndex(const IndexOptions& options);
  ~BasicIndex();

  // The tree of a keyspace, by its canonical encoding, of which every byte is compared.
  // kResourceExhausted: roots_max are open, or no memory.
  Result<Root> open(std::span<const std::byte> encoding);
  // Forgets a keyspace with all its blocks, which become unreachable at once and are reaped in time. Handles stay good
  // for release(). kNotFound: it is not open.
  Status close(Root root);
  // The same, and the keyspace stays open, empty.
  Status clear(Root root);
  // Makes all blocks of all keyspaces unreachable at once, whatever their number: new weights.
  void start_epoch();

  // The longest stored prefix in whole blocks. `out` receives the locations and has room for all whole blocks of
  // `elements`. A root that is not open: an empty match.
  Match lookup(Root root, std::span<const Element> elements, std::span<Location> out);
  // How many blocks lookup() would find. Takes no pin and counts as no use.
  uint32_t peek(Root root, std::span<const Element> elements) const;
  // Goes on from a handle: `rest` begins where its blocks end, and so does `out`. The handle is taken; the match's pins
  // all blocks, its own (also such as were removed meanwhile) and those found now. Costs what the rest costs, however
  // long the prefix is.
  Match resume(Root root, Handle& handle, std::span<const Element> rest, std::span<Location> out);

  // What readers in other processes (index_reader.h) begin with, when the index lies in shared memory.
  SharedRoot shared_root(Root root) const;
  // The locations of all blocks that readers in other processes use now. Whoever has made something known to readers
  // before (that a block is leaving) and calls this: each of them is among these, or has seen it. Some may come twice.
  void collect_in_use(std::vector<Location>& out) const;
  // Asks for what readers have touched, which evict() does, too.
  void take_touches();
  // The locations on the path to a run that a reader has touched (RemoteReaders). Any number will do.
  void collect_path(uint32_t run, std::vector<Location>& out) const;
  // Of shared memory, for so many bytes of runs.
  static uint64_t shared_bytes(uint64_t runs_bytes);

  // Why a look-up of `elements` that gave `match` stopped. Some hundred nanoseconds; look-ups do not pay for it.
  Explanation explain(Root root, std::span<const Element> elements, const Match& match) const;
  // The other keyspace that knows most blocks of `elements`; value zero: none knows any. Asks all of them.
  struct Elsewhere {
    Root root;
    uint32_t blocks = 0;
  };
  Elsewhere find_elsewhere(Root root, std::span<const Element> elements) const;

  // Stores blocks [first_block, first_block + locations.size()), whose last one ends `elements` (given from the
  // beginning). `handle` is from the same root and pins a prefix of the same prompt, or is empty; it is taken.
  // canonical[i] is where that block is now; where it is not locations[i], somebody had stored the block before, and
  // locations[i] is still the caller's. The new handle pins what is stored now: blocks that the old one pinned and
  // that were removed meanwhile are let go.
  // On an error nothing changed and `handle` is still the caller's. kInvalidArgument: no blocks, or lengths that do
  // not fit together. kFailedPrecondition: a block before first_block is not stored, a handle that pins nothing here
  // (released, of another root, of a keyspace that was cleared), or a root that is not open. kResourceExhausted: no
  // memory for it (evict first).
  Result<Inserted> insert(Root root, Handle& handle, std::span<const Element> elements, uint32_t first_block,
                          std::span<const Location> locations, std::span<Location> canonical);
  // The same where the handle's blocks end: `rest` begins there. For the growth of a generated text.
  Result<Inserted> extend(Root root, Handle& handle, std::span<const Element> rest, std::span<const Location> locations,
                          std::span<Location> canonical);

  // kFailedPrecondition: not a pin that exists; nothing changed. (That a pin is given back twice while others pin the
  // same run is not noticed; Handle is move-only so that it does not happen.) An empty handle is fine.
  Status release(Handle handle);

  // Forgets up to out.size() blocks that nobody pins and that nothing continues: least recently used runs first, each
  // from its end. Returns how many; their locations are the caller's again.
  size_t evict(std::span<Location> out);

  // The same, but only blocks for whose location `may_leave` holds, and none that is continued by one for which it does
  // not. Looks once at each run that could be evicted, so it is for many blocks at a time.
  size_t evict_if(std::span<Location> out, const std::function<bool(Location)>& may_leave);

  // The same, and does not stop at what shows at once: when it returns 0, nothing that may leave is left but what
  // somebody uses. Slower; for calls that are rare.
  size_t evict_all_if(std::span<Location> out, const std::function<bool(Location)>& may_leave);

  // Makes block `first_block` of the handle's prefix and all that continues it unreachable at once. Returns how many
  // blocks that was (0: somebody did it before). Their locations come out of reap(). Looks through all runs.
  size_t remove(const Handle& handle, uint32_t first_block);

  // The same for every block whose location is gone, and all that continues it. Looks at all runs and all locations.
  size_t remove_if(const std::function<bool(Location)>& is_gone);

  // Locations of removed blocks that nobody pins any more; call it after remove(), close(), clear(), start_epoch() and
  // release() until it returns 0. Costs nothing when there are none.
  size_t reap(std::span<Location> out);

  // Announces that the caller computes blocks [first_block, end of elements) and will insert them, all or part after
  // part, before the clock says deadline_ns. `owner` is whoever would be gone with them. kAlreadyExists: somebody else
  // has announced block first_block of this prompt. kResourceExhausted: too much is in flight. kInvalidArgument: no
  // blocks.
  Result<Claim> announce(Root root, std::span<const Element> elements, uint32_t first_block, uint64_t owner,
                         uint64_t deadline_ns);
  // Sleeps until more than `blocks` blocks of the prompt are stored, nobody computes the next one, or the clock says
  // give_up_ns. Look up again then.
  WaitEnd wait(Root root, std::span<const Element> elements, uint32_t blocks, uint64_t give_up_ns);
  // Withdraws all that an owner has announced; returns how many announcements that were.
  size_t owner_is_gone(uint64_t owner);

  IndexUsage usage() const;
  // Looks through all runs. A root that is not open: what is pinned in all.
  IndexPins pins(Root root) const;

  // Spends the memory of so many bytes of runs now instead of at first use.
  void prefault(uint64_t bytes);

  // An upper bound of the memory that one block takes here when it is stored: a run of its own with room to grow, cut
  // off from another one. (What is evicted from a run leaves its memory when the run goes.)
  static uint64_t block_bytes_max(uint32_t block_tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Tokens, compared: what the store uses.
using Index = BasicIndex<ExactPolicy>;
// Tokens, told apart by keyed 64-bit fingerprints.
using FingerprintIndex = BasicIndex<FingerprintPolicy>;
// Hashes that the caller made.
using PrehashedIndex = BasicIndex<PrehashedPolicy>;

}  // namespace rhizome
