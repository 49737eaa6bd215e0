// Contexts that are handed over: the tokens of a prompt and pins on what is stored of them, under a handle, so that
// another client goes on with them where the publisher stopped.
//
// States of a context:
//
//   published  who has the handle may adopt it. A kMove context that somebody is adopting is found by nobody else, and
//              is published again if that one gives it up or is gone.
//   over       unpublished, its lifetime has ended, its publisher has left (unless it outlives him), or a kMove context
//              was kept by its adopter. Nobody finds it; its pins go with the last adoption that is under way.
//
// Adopting takes two steps, so that there is no moment in which nobody pins: begin_adoption() gives the tokens, the
// adopter pins what he looks up with them, and end_adoption() lets go. Whoever is gone meanwhile has ended it.
//
// What an owner publishes counts for him, but what outlives its publisher counts for kNobody, whose limits are those of
// one owner: it is there when the owner is not.
//
// Thread-safety: none; one thread, or a lock of whoever has it. Pins are given back to the store from inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "attach/context_handle.h"
#include "block/token.h"
#include "contract/result.h"
#include "index/index_types.h"
#include "index/run.h"
#include "store/stored_prefix.h"

namespace rhizome {

struct ContextLimits {
  uint32_t contexts_max = 1024;
  uint32_t contexts_of_owner_max = 256;
  uint32_t adoptions_of_owner_max = 16;  // that are under way
  // With the encodings of the keyspaces, four bytes a token.
  size_t tokens_max = size_t{1} << 22;
  size_t tokens_of_owner_max = size_t{1} << 20;
  uint64_t lifetime_max_ns = 600'000'000'000;
};

class Contexts {
 public:
  static constexpr uint64_t kNobody = 0;  // no owner has this number

  explicit Contexts(const ContextLimits& limits = {}) : limits_(limits) {}

  // What an adopter gets.
  struct Content {
    Root root = {};
    std::vector<Token> tokens = {};
    std::vector<std::byte> keyspace = {};  // as frames have them; empty where all have the same roots
    std::vector<std::byte> geometry = {};
  };
  struct Offer {
    Content content = {};
    ContextTerms terms = {};
    StoredPrefix pins = {};
    RunId run = 0;  // the deepest one of what is pinned, for collect_runs()
  };
  // kInvalidArgument: a lifetime of nothing, or of more than there may be. kResourceExhausted: too many contexts, or
  // too many tokens.
  Result<ContextHandle> publish(uint64_t owner, Offer offer, uint64_t now_ns);
  // Who has the handle may: its publisher may be gone. An adoption that is under way goes on. kNotFound: there is no
  // such context (any more), or somebody is adopting it to keep it for himself.
  Status unpublish(const ContextHandle& handle, uint64_t now_ns);

  struct Adoption {
    uint64_t number = 0;
    const Content* content = nullptr;  // until end_adoption()
    uint32_t blocks = 0;               // that are pinned
  };
  // kNotFound: as unpublish(). kResourceExhausted: too many under way, whatever the handle is.
  Result<Adoption> begin_adoption(uint64_t owner, const ContextHandle& handle, uint64_t now_ns);
  // The adopter pins by himself now (`keeps`), or gives it up. kNotFound: no adoption of that owner.
  Status end_adoption(uint64_t owner, uint64_t adoption, bool keeps);

  // The owner is gone: his adoptions have ended, and all that does not outlive him. Fine for who never came.
  void leave(uint64_t owner);
  // Of contexts whose lifetime has ended; other calls look at that by themselves.
  void drop_late(uint64_t now_ns);

  // Appends the runs of what the owner has published, and of what he is adopting.
  void collect_runs(uint64_t owner, std::vector<RunId>& out) const;
  size_t contexts_count() const { return contexts_.size(); }
  size_t adoptions_count() const { return adoptions_.size(); }

 private:
  struct Context {
    ContextHandle handle;
    uint64_t owner = 0;
    uint64_t until_ns = 0;
    uint32_t adopters = 0;  // under way
    bool is_over = false;
    Offer offer;
  };
  struct UnderWay {
    uint64_t number = 0;
    uint64_t owner = 0;
    Context* context = nullptr;
  };

  static size_t counted_tokens(const Content& content);
  Context* find(const ContextHandle& handle);
  void give_up(const UnderWay& adoption);
  void drop_over();

  const ContextLimits limits_;
  std::list<Context> contexts_;  // their addresses stay
  std::vector<UnderWay> adoptions_;
  uint64_t last_adoption_ = 0;
};

}  // namespace rhizome
