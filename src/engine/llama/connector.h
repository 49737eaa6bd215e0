// The connector: attached to one engine context, it follows every sequence's tokens, stores whole blocks as they
// are computed, and puts stored or live rows in place of computing them.
//
// Its entries are few: the hook (restore), the forward pass (decode), rows removed or replaced, adapters changed,
// outputs asked for. The patched server and the preloaded library are thin callers of them; each entry also does
// what the llama.h function of the same name does.
//
// A sequence's rows are, at any time, one of: known (the shadow says which tokens they are), tainted (unknown, left
// alone until emptied), lost (the engine's cache had to be cleared: the tokens are known, the rows are computed
// again before the sequence's next batch), or parked (known, and out of the engine's cache).
//
// Thread-safety: every entry may be called from any thread; one lock guards a connector. As in llama.cpp itself, one
// context must not be used by two threads at once for the result to make sense.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "concurrency/mutex.h"
#include "contract/result.h"
#include "engine/llama/engine_context.h"
#include "engine/llama/host_flight.h"
#include "engine/llama/outputs.h"
#include "engine/llama/probe.h"
#include "engine/llama/row_batch.h"
#include "engine/llama/sequence_table.h"
#include "engine/llama/single_flight.h"
#include "engine/llama/transfer.h"
#include "engine/llama/variants.h"

namespace rhizome {

struct ConnectorOptions {
  bool restore = true;  // false: computes everything, still stores
  std::string tenant;
  // Of the store's memory. Idle sequences are parked only if it could hold all that the engine's cache can, twice: in
  // a smaller one their blocks would be evicted before they are wanted.
  uint64_t store_bytes = UINT64_MAX;
};

class Connector {
 public:
  // Probes a context that was made as `plan` says and attaches to it. `api`, `model`, `client` and `counters` must
  // outlive the connector, and the context must.
  static Result<std::unique_ptr<Connector>> attach(const LlamaApi& api, llama_context* context, const ContextPlan& plan,
                                                   const ModelIdentity& model, Client& client, Counters& counters,
                                                   const ConnectorOptions& options);

  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // How a request wishes to be treated.
  enum Flags : uint32_t {
    kBypass = 1,           // neither restored nor stored
    kAdaptersPending = 2,  // adapters are chosen for each batch: what to restore is only known in decode
    kWhatFits = 4,         // never answer kNoCells
  };
  static constexpr int32_t kAskAgain = -1;  // another sequence computes the same tokens in the batch to come
  static constexpr int32_t kNoCells = -2;   // make room and ask again

  // The hook. `seq` is about to compute the tokens of `prompt` behind the first `have`, which its rows hold. Restores
  // more, and returns how many tokens the sequence holds now: at least one less than the prompt's; less than `have`
  // when rows were not the request's own and were removed. Or one of the two codes above.
  int32_t restore(int32_t seq, std::span<const Token> prompt, int32_t have, std::string_view salt, uint32_t flags);

  // Before it asks for a request, a caller names the sequences that no request uses, and how many tokens it has of
  // each: everybody's attention passes over their rows. When the request has taken what it shares with them, or needs
  // their cells, those rows that are stored leave the engine's cache (the sequence is parked); they come back when it
  // is used again. Returns how many tokens the caller may go on believing in: `have`, or 0: it should empty the
  // sequence now.
  int32_t set_idle(int32_t seq, int32_t have);

  // The caller reads the engine's rows of a sequence (all of them: a negative number) after this call. False: they are
  // not there, and there are no cells for them; a hook's next answer for the sequence says so.
  bool before_read(int32_t seq);

  // llama_decode.
  int32_t decode(const llama_batch& batch);

  // llama_memory_*, for this context's memory.
  void clear(bool data);
  bool remove(int32_t seq, int32_t begin, int32_t end);
  void copy(int32_t from, int32_t to, int32_t begin, int32_t end);
  void keep(int32_t seq);
  void shift(int32_t seq, int32_t begin, int32_t end, int32_t by);
  void divide(int32_t seq, int32_t begin, int32_t end, int by);
  int32_t position_min(int32_t seq);
  int32_t position_max(int32_t seq);

  // Somebody else writes the rows of a sequence (all of them: a negative number) after this call.
  void replaced(int32_t seq);

  // What is in force from the next batch on. `known` false: something cannot be identified.
  void set_adapters(std::vector<AdapterUse> adapters, bool known);
  void set_control_vector(std::string encoding);
  void set_causal(bool causal);
  void set_embeddings(bool embeddings);

  // Outputs of the last batch under the caller's indices.
  float* logits();
  float* logits_at(int32_t index);
  int32_t output_index(int32_t index);  // for the engine's own functions

  bool exact() const { return engine_.facts.plan.exact; }
  uint32_t sequences_count() const { return engine_.facts.plan.sequences_count; }

 private:
  Connector(const LlamaApi& api, llama_context* context, ContextFacts facts, const ModelIdentity& model, Client& client,
            Counters& counters, const ConnectorOptions& options);

  struct Request {
    int32_t seq;
    std::span<const Token> prompt;
    uint32_t have;
    std::string salt;
    VariantId variant;
    bool bypass;
    uint32_t flags;
  };

  // connector.cc
  void forget(int32_t seq) REQUIRES(mutex_);
  void drop_rows(int32_t seq, uint32_t from) REQUIRES(mutex_);
  void taint(int32_t seq) REQUIRES(mutex_);
  void prepare_for_change(int32_t seq) REQUIRES(mutex_);
  void changed(int32_t seq) REQUIRES(mutex_);
  void publish(int32_t seq) REQUIRES(mutex_);
  // As publish(), but what it stores may be on its way until the engine has computed what comes next: whoever calls it
  // settles before the caller of the connector goes on.
  void publish_ahead(int32_t seq) REQUIRES(mutex_);
  void recover() REQUIRES(mutex_);
  bool revive(int32_t seq) REQUIRES(mutex_);
  bool rebuild(int32_t seq) REQUIRES(mutex_);

  // connector_park.cc
  bool may_leave(int32_t seq) REQUIRES(mutex_);
  std::vector<int32_t> take_idle(int32_t asking) REQUIRES(mutex_);
  bool park(std::span<const int32_t> idle) REQUIRES(mutex_);
  Transfer::Outcome unpark(int32_t seq, uint32_t rows_in_all, bool what_fits) REQUIRES(mutex_);
  bool revive_parked(int32_t seq) REQUIRES(mutex_);
  bool use_parked(const Request& request, uint32_t& own) REQUIRES(mutex_);

  // connector_restore.cc
  bool foreign(const Request& request) const REQUIRES(mutex_);
  bool continues(const Request& request) const REQUIRES(mutex_);
  std::span<const Token> restorable(const Request& request) const;
  uint32_t stream_unit() const;
  uint32_t usable_rows(const Request& request) REQUIRES(mutex_);
  bool is_untouched(const Request& request) const REQUIRES(mutex_);
  uint32_t whole_unit() const;
  uint32_t available_tokens(const Request& request) REQUIRES(mutex_);
  bool must_wait(const Request& request) REQUIRES(mutex_);
  bool must_wait_for_host(const Request& request) REQUIRES(mutex_);
  bool settle(Request& request) REQUIRES(mutex_);
  int32_t answer(const Request& request) REQUIRES(mutex_);
  uint32_t live_tokens(int32_t seq, std::span<const Token> prompt, VariantId variant, int32_t& donor) const
      REQUIRES(mutex_);
  bool finish_copies(int32_t seq) REQUIRES(mutex_);
  void share_live(int32_t seq, std::span<const Token> prompt) REQUIRES(mutex_);
  Transfer::Outcome restore_stored(int32_t seq, std::span<const Token> prompt, uint32_t unit, uint32_t rows_in_all,
                                   bool what_fits) REQUIRES(mutex_);
  void count(Sequence& sequence, size_t prompt_tokens, uint32_t kept, uint32_t held) REQUIRES(mutex_);

  // connector_decode.cc
  int32_t decode_unknown(const llama_batch& batch) REQUIRES(mutex_);
  bool prepare(const llama_batch& batch) REQUIRES(mutex_);
  void drop_repeated_rows() REQUIRES(mutex_);
  int32_t decode_default(const llama_batch& batch) REQUIRES(mutex_);
  int32_t compute_early(RowRange& range, bool alone) REQUIRES(mutex_);
  void await_host(int32_t seq, std::span<const Token> prompt) REQUIRES(mutex_);
  void restore_within(RowRange& range) REQUIRES(mutex_);
  uint32_t early_step(const RowRange& range, bool alone, size_t& end) REQUIRES(mutex_);
  void absorb(std::span<const Row> rows) REQUIRES(mutex_);
  void publish_touched(std::span<const Row> rows) REQUIRES(mutex_);
  void settle_failure(std::span<const Row> rows, int32_t status) REQUIRES(mutex_);
  uint32_t generated_rows(std::span<const Row> rows) const REQUIRES(mutex_);

  // connector_exact.cc
  int32_t decode_exact() REQUIRES(mutex_);
  int32_t compute_exact(const RowRange& range) REQUIRES(mutex_);
  int32_t compute_exact_prompt(const RowRange& range) REQUIRES(mutex_);
  int32_t compute_rows(int32_t seq, std::span<const Token> tokens, bool output, int32_t index, uint32_t generated)
      REQUIRES(mutex_);
  uint32_t exact_publish_step(int32_t seq) const REQUIRES(mutex_);

  const ConnectorOptions options_;
  Mutex mutex_;
  EngineContext engine_;
  SequenceTable sequences_ GUARDED_BY(mutex_);
  Transfer transfer_ GUARDED_BY(mutex_);
  Variants variants_ GUARDED_BY(mutex_);
  SingleFlight flight_ GUARDED_BY(mutex_);
  HostFlight host_flight_ GUARDED_BY(mutex_);
  Outputs outputs_ GUARDED_BY(mutex_);
  bool salted_ GUARDED_BY(mutex_) = false;                    // some request had a salt
  bool embeddings_ GUARDED_BY(mutex_) = false;                // every row has an output: no batch may be cut
  Reason stopped_ GUARDED_BY(mutex_) = Reason::kNeverStored;  // of the look-up under way
  // Of the batch under way; members so that their memory is used again.
  std::vector<Row> rows_ GUARDED_BY(mutex_);
  std::vector<RowRange> ranges_ GUARDED_BY(mutex_);
  std::vector<Row> last_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
