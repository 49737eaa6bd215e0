// What the library keeps for the process it was loaded into: settings, the client, the models, adapters and
// contexts it has seen. Made at the first call of a llama.h function, never destroyed: a program may still call
// into the library while it exits.
//
// A process that is forked off shares its parent's memory but not its engine: there everything passes through.
//
// Thread-safety: every function may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/client.h"
#include "concurrency/mutex.h"
#include "engine/llama/connector.h"
#include "engine/llama/model_identity.h"
#include "engine/llama/settings.h"
#include "telemetry/counters.h"

namespace rhizome {

class Session {
 public:
  // Null when everything passes through: switched off, of another llama.cpp version, wrongly configured, forked.
  static Session* get();

  void model_loaded(const llama_model* model, std::vector<std::string> files, const llama_model_params& params);
  void model_freed(const llama_model* model);

  void adapter_loaded(const llama_adapter_lora* adapter, const std::string& path);
  void adapter_freed(const llama_adapter_lora* adapter);
  // False when the content of one of them is not known.
  bool adapters_in_use(llama_adapter_lora* const* adapters, const float* scales, size_t count,
                       std::vector<AdapterUse>& uses);

  llama_context* make_context(llama_model* model, const llama_context_params& params);
  void context_freed(const llama_context* context);

  // Null for contexts that are passed through.
  Connector* connector_of(const llama_context* context);
  Connector* connector_of(llama_memory_t memory);

 private:
  Session(const LlamaApi& api, Settings settings, std::unique_ptr<Counters> counters, std::unique_ptr<Client> client)
      : api_(api), settings_(std::move(settings)), counters_(std::move(counters)), client_(std::move(client)) {}
  static Session* make();

  struct Model {
    std::unique_ptr<ModelIdentity> identity;
    bool simulated = false;  // loaded without its tensors: contexts on it cannot compute
  };

  llama_context* pass_through(llama_model* model, const llama_context_params& params, const char* reason);

  const LlamaApi& api_;
  const Settings settings_;
  const std::unique_ptr<Counters> counters_;
  const std::unique_ptr<Client> client_;

  Mutex mutex_;
  std::unordered_map<const llama_model*, Model> models_ GUARDED_BY(mutex_);
  std::unordered_map<const llama_adapter_lora*, Digest> adapters_ GUARDED_BY(mutex_);
  std::unordered_map<const llama_context*, std::unique_ptr<Connector>> connectors_ GUARDED_BY(mutex_);
  std::unordered_map<llama_memory_t, Connector*> by_memory_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
