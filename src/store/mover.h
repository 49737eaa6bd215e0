// The mover: takes blocks between memory and the tier below. Loads what readers wait for, writes behind what is worth
// it, and keeps a little memory free by letting blocks leave that the tier has.
//
// Nothing moves by itself: step() does what can be done now, and whoever owns the mover calls it (the store's own
// thread, or a test). Bytes are copied without a lock; what happened to the block meanwhile is found out after it
// (block_table.h).
//
//   a load:   reserved slot -> read into a staging buffer -> image checked against what was asked for -> decoded into
//             the slot -> committed -> landed
//   a write:  slot pinned and its checksum compared -> the tier asked whether it has the block -> encoded into a
//             staging buffer -> written -> for a demotion: pins and epoch checked, switched, slot freed
//   around:   a block without a slot, in a buffer that was lent for it: the same from the checksum on, and in the end
//             it is known as one that is below; its owner publishes it (around_chains.h)
//
// Thread-safety: everything here may be called from any thread; only one is in step() at a time, others return at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "block/identity.h"
#include "codec/image.h"
#include "concurrency/mutex.h"
#include "machine/clock.h"
#include "residency/admission.h"
#include "residency/load_model.h"
#include "slab/slab.h"
#include "store/around_chains.h"
#include "store/block_table.h"
#include "store/demotion.h"
#include "store/staging.h"
#include "store/tiering_options.h"
#include "telemetry/counters.h"
#include "tier/tier.h"

namespace rhizome {

// What the blocks of a keyspace are.
struct KeyspaceForm {
  Digest digest{};
  BlockGeometry geometry;
  uint64_t slot_bytes = 0;
  size_t identity_bytes = 0;
};

class Mover {
 public:
  // `slots_bytes`: what slots can have of the slab's budget; the marks are shares of it.
  Mover(std::unique_ptr<Tier> tier, Slab& slab, uint64_t slots_bytes, BlockTable& table, Demotion& demotion,
        Counters& counters, const TieringOptions& options);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  Tier& tier() { return *tier_; }
  // Before any of its blocks moves; once for each keyspace.
  void open(uint32_t keyspace, const KeyspaceForm& form);

  // A block that is to be loaded; `slot` is of its keyspace's size.
  struct Load {
    BlockRef ref;
    uint32_t keyspace = 0;
    uint32_t image_bytes = 0;
    BlockKey key;
    BlockKey parent;
    uint32_t position = 0;
    std::vector<Token> tokens;
    Reserved slot;
  };
  // In the order in which they are wanted. What has not begun by the deadline is given up.
  void begin(std::vector<Load> loads, double predicted_seconds, uint64_t deadline_ns);
  // Sleeps until the block is not being loaded any more, but no longer than that; may return early.
  void wait(Location location, uint64_t at_most_ns);

  // Memory for a block that no slot can be had for, of at least the slot's size, whose first slot_bytes are zero.
  // Empty: as much as may be is lent, or writes are not worth it now.
  Staging::Buffer lend(uint32_t keyspace);
  void give_back(Staging::Buffer buffer) { staging_.give_back(std::move(buffer)); }
  uint64_t lent_bytes() const { return staging_.lent_bytes(); }
  // Blocks, in order, that are written from a buffer of lend(), identity included.
  struct Around {
    AroundChains::Ticket ticket = {};  // of around()
    BlockKey key;
    uint32_t keyspace = 0;
    Staging::Buffer buffer;
    uint64_t checksum = 0;     // of the slot_bytes
    uint64_t deadline_ns = 0;  // what has not begun by then is lost
  };
  void write_around(std::vector<Around> blocks);
  AroundChains& around() { return around_; }

  // A reader has waited so long for so many bytes and gave up: a tier that does not answer must not be believed in.
  void observe_late(uint64_t bytes, uint64_t waited_ns);
  LoadPlan plan(const LoadQuestion& question);
  LoadPlan predict(const LoadQuestion& question) const;
  void observe_compute(uint64_t tokens, uint64_t before, double seconds);

  // Does what can be done without waiting; false: there was nothing.
  bool step();
  // Waits until there may be something to do.
  void rest(uint64_t at_most_ns);
  void wake();
  // Memory ran out before the marks were reached.
  void press() { is_pressed_.store(true, std::memory_order_relaxed); }
  // The tier has forgotten blocks that are nowhere else; told once. The owner takes them out of the index.
  bool take_gone() { return gone_.exchange(false, std::memory_order_acq_rel); }

  // Begins to write all that waits, also what was used once only, until nothing does or the time is over.
  void flush(uint64_t deadline_ns);
  // Asks the tier to forget a block; best effort.
  void forget_below(std::span<const BlockKey> keys);

  // Of images that readers wait for.
  uint64_t bytes_under_way() const;

 private:
  enum class Kind : uint8_t { kLoad, kFind, kWrite, kRemove };
  // Loads that were asked for together: what the cost model learns from.
  struct Batch {
    uint64_t began_ns = 0;
    uint64_t bytes = 0;
    uint64_t left = 0;
    bool failed = false;
    double predicted_seconds = 0;
  };
  struct Flight {
    Kind kind = Kind::kLoad;
    BlockKey key;
    BlockRef ref;
    uint32_t keyspace = 0;
    Staging::Buffer buffer;
    // load
    Load load;
    uint64_t batch = 0;
    uint64_t deadline_ns = UINT64_MAX;
    // write
    Pinned source;
    uint64_t image_bytes = 0;
    bool demotes = false;
    std::optional<Around> around;  // in place of the source
  };

  const KeyspaceForm& form(uint32_t keyspace) const;
  WriteDecision decide(WriteCandidate candidate, const KeyspaceForm& keyspace, uint64_t now_ns);
  bool collect(uint64_t wait_ns) REQUIRES(step_mutex_);
  bool collect_forgotten() REQUIRES(step_mutex_);
  bool submit_loads();
  bool submit(Flight flight, std::span<std::byte> into, std::span<const std::byte> from);
  void finish(Flight flight, const TierCompletion& completion) REQUIRES(step_mutex_);
  void finish_load(Flight flight, const TierCompletion& completion) REQUIRES(step_mutex_);
  // The slot, decoded and committed; nothing when the image is not what was asked for.
  std::optional<SlotRef> decode(Flight& flight, std::span<const std::byte> image) REQUIRES(step_mutex_);
  void give_up(Flight& flight, bool is_gone);
  void load_is_over(const Flight& flight, bool failed);
  bool write_behind(bool demotes) REQUIRES(step_mutex_);
  std::optional<bool> write_one(bool demotes) REQUIRES(step_mutex_);
  void finish_find(Flight flight, const TierCompletion& completion) REQUIRES(step_mutex_);
  void finish_write(Flight flight, const TierCompletion& completion) REQUIRES(step_mutex_);
  void write_is_over(Flight& flight, bool is_written, bool again);
  bool submit_around() REQUIRES(step_mutex_);
  void around_is_over(const Flight& flight, Around& around, bool is_written, bool again);
  bool keep_free() REQUIRES(step_mutex_);
  // More than that, or less than that, of what slots can have is full.
  bool is_above(uint32_t percent) const;
  bool is_below(uint32_t percent) const;
  void publish_usage();

  const TieringOptions options_;
  Clock& clock_;
  const std::unique_ptr<Tier> tier_;
  Slab& slab_;
  const uint64_t slots_bytes_;
  BlockTable& table_;
  Demotion& demotion_;
  Counters& counters_;
  Staging staging_;
  AroundChains around_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> is_flushing_{false};
  std::atomic<bool> is_pressed_{false};

  Mutex step_mutex_;
  CodecWorkspace workspace_ GUARDED_BY(step_mutex_);
  bool is_demoting_ GUARDED_BY(step_mutex_) = false;         // between the two watermarks
  uint64_t no_write_before_ns_ GUARDED_BY(step_mutex_) = 0;  // the budget is used up

  mutable Mutex mutex_;
  CondVar changed_;
  std::unordered_map<uint32_t, KeyspaceForm> forms_ GUARDED_BY(mutex_);
  uint64_t read_room_most_ GUARDED_BY(mutex_) = 0;        // for the largest image of any of them
  std::deque<Flight> waiting_ GUARDED_BY(mutex_);         // loads without a buffer
  std::deque<Around> waiting_around_ GUARDED_BY(mutex_);  // that no write has begun for
  std::unordered_map<uint64_t, Flight> flights_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Batch> batches_ GUARDED_BY(mutex_);
  uint64_t last_tag_ GUARDED_BY(mutex_) = 0;
  uint64_t last_batch_ GUARDED_BY(mutex_) = 0;
  uint64_t writes_under_way_ GUARDED_BY(mutex_) = 0;
  uint64_t bytes_under_way_ GUARDED_BY(mutex_) = 0;
  bool woken_ GUARDED_BY(mutex_) = false;
  LoadModel model_ GUARDED_BY(mutex_);
  Admission admission_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
