// What a node has to do with its keeper (node/keeper.h): it takes what the node before it has left, and hands over what
// the next one is to have.
//
// When the keeper is gone the node goes on without: that is said once, and the next node starts cold.
//
// Thread-safety: everything here may be called from any thread, but for start(), take() and drop_former(), which belong
// to who starts the node.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block/sha256.h"
#include "concurrency/mutex.h"
#include "node/keeper.h"
#include "node/memory_holder.h"
#include "slab/memory_keeper.h"

namespace rhizome {

// Under which a piece of memory is held. All that a node must know before it looks into it is here, so that one of
// another version or configuration looks into none.
struct KeptLabel {
  // Counts up with whatever gives these bytes another meaning: the label, an entry of the directory, an identity, the
  // keyspace book.
  static constexpr uint64_t kFormat = 0x31'50'45'45'4b'5a'52;  // "RZKEEP1"

  uint64_t format = kFormat;
  uint64_t life = 0;
  uint64_t bytes = 0;
  KeptKind kind = KeptKind::kChunk;
  uint32_t number = 0;
  uint32_t block_tokens = 0;
  uint32_t unused = 0;
  Digest tenant{};  // of its name
};
static_assert(sizeof(KeptLabel) == 72);

class KeeperLink {
 public:
  // Reaches the supervisor where it holds descriptors, else the keeper, and takes over what is held. Errors: nobody is
  // there.
  static Result<std::unique_ptr<KeeperLink>> start(KeeperOptions options);

  // What a former node of that configuration has left, checked and mapped.
  std::vector<KeptMemory> take(std::string_view tenant, uint32_t block_tokens);
  // The keeper forgets what it held before this node; what nobody has taken is of another configuration.
  void drop_former();

  void hold(const KeptLabel& label, int descriptor);
  void drop(const KeptLabel& label);
  // False: it is gone, which the log says once.
  bool is_there();
  // There was nothing to keep before this node.
  bool is_new() const { return is_new_; }
  // The keeper ends, and what it holds goes: nobody is to come.
  void end();

 private:
  using LabelBytes = std::array<std::byte, sizeof(KeptLabel)>;

  KeeperLink(std::unique_ptr<MemoryHolder> holder, std::vector<MemoryHolder::Held> former)
      : holder_(std::move(holder)), former_(std::move(former)), is_new_(former_.empty()) {}
  void note(const Status& told);

  const std::unique_ptr<MemoryHolder> holder_;
  std::vector<MemoryHolder::Held> former_;  // those that were taken have no descriptor any more
  const bool is_new_;
  std::atomic<bool> is_gone_{false};
};

// What the store of one domain hands over.
class DomainKeeper final : public MemoryKeeper {
 public:
  // `link` outlives this.
  DomainKeeper(KeeperLink& link, std::string_view tenant, uint32_t block_tokens, uint64_t life);

  void keep(KeptKind kind, uint32_t number, const Mapping& memory) override;
  void drop(KeptKind kind, uint32_t number) override;

 private:
  KeptLabel label_of(KeptKind kind, uint32_t number) const;

  KeeperLink& link_;
  KeptLabel common_;
  // The bytes of what was handed over are a part of its label.
  mutable Mutex mutex_;
  std::map<std::pair<KeptKind, uint32_t>, uint64_t> bytes_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
