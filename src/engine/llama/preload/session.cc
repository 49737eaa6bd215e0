#include "engine/llama/preload/session.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include <pthread.h>

#include "engine/llama/preload/next_api.h"
#include "machine/thread.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

std::atomic<bool> forked{false};

void set_level(const Settings& settings) {
  if (settings.log == "quiet") set_log_level(LogLevel::kError);
  if (settings.log == "debug") set_log_level(LogLevel::kDebug);
}

std::unique_ptr<Counters> open_counters(const Settings& settings) {
  if (settings.counters_path.empty()) return Counters::local();
  auto page = Counters::attach(settings.counters_path);
  if (page) return std::move(*page);
  log_warning("{}: counters are kept by this process alone: {}", settings.counters_path, page.error().reason);
  return Counters::local();
}

// How long the end of the process waits for blocks that are not on disk yet.
constexpr uint64_t kLastWritesNs = 2'000'000'000;

EmbeddedOptions embedded_options(const Settings& settings) {
  EmbeddedOptions options;
  options.memory_bytes = settings.memory_bytes;
  options.block_tokens = settings.block_tokens;
  options.verify = VerifyPolicy::kAlways;
  if (settings.disk_bytes > 0 && settings.cache_directory.empty()) {
    log_error("no blocks are kept on disk: there is no directory for them (RHIZOME_CACHE_DIR)");
    return options;
  }
  options.disk.directory = settings.cache_directory + "/blocks";
  options.disk.bytes = settings.disk_bytes;
  options.disk.write_bytes_per_day = settings.disk_bytes_per_day;
  options.tiering.is_inclusive = !settings.exclusive;
  if (settings.watermarks) options.tiering.watermarks = *settings.watermarks;
  return options;
}

// A node that has just ended may be followed by another one; loading a model may take longer than all of this.
constexpr uint32_t kAttachTries = 30;
constexpr uint64_t kAttachPauseNs = 100'000'000;
// What is being written at a time: a small part of the memory, and room for some large blocks.
constexpr uint64_t kStagingShare = 32;
constexpr uint64_t kStagingLeast = uint64_t{4} << 20;
constexpr uint64_t kStagingMost = uint64_t{64} << 20;

Result<std::unique_ptr<Client>> attach(const Settings& settings, Counters& counters) {
  AttachedOptions options;
  options.socket_path = settings.node_socket;
  options.tenant = settings.tenant;
  options.verify = VerifyPolicy::kAlways;
  options.staging_bytes = std::clamp(settings.memory_bytes / kStagingShare, kStagingLeast, kStagingMost);
  auto client = make_attached_client(options, counters);
  const auto is_absent = [&] {
    return !client && (client.error().code == Code::kNotFound || client.error().code == Code::kUnavailable);
  };
  for (uint32_t tries = 1; is_absent() && tries < kAttachTries; ++tries) {
    pause_thread(kAttachPauseNs);
    client = make_attached_client(options, counters);
  }
  if (client && (*client)->block_tokens() != settings.block_tokens) {
    return fail(Code::kFailedPrecondition, "the node's blocks have another number of tokens");
  }
  return client;
}

Result<std::unique_ptr<Client>> make_client(const Settings& settings, Counters& counters) {
  if (!settings.node_socket.empty()) return attach(settings, counters);
  return make_embedded_client(embedded_options(settings), counters);
}

}  // namespace

Session* Session::get() {
  if (forked.load(std::memory_order_relaxed)) return nullptr;
  static Session* const kSession = make();
  return kSession;
}

Session* Session::make() {
  const LlamaApi& api = next_llama_api();
  if (api.decode == nullptr) return nullptr;
  std::string problem;
  auto settings = settings_from_environment(problem);
  if (!settings) {
    log_error("{}: nothing is cached", problem);
    return nullptr;
  }
  set_level(*settings);
  if (settings->off) return nullptr;
  if (const std::string other = other_llama_version(); !other.empty()) {
    log_warning("this program uses {}, the cache is built for {} with {}: everything passes through", other,
                kLlamaVersion, kGgmlVersion);
    return nullptr;
  }
  auto counters = open_counters(*settings);
  auto client = make_client(*settings, *counters);
  if (!client) {
    log_error("nothing is cached: {}", client.error().reason);
    return nullptr;
  }
  pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  if (settings->disk_bytes > 0 && settings->node_socket.empty()) {
    std::atexit([] {
      if (Session* const session = get()) session->client_->flush(kLastWritesNs);
    });
  }
  return new Session(api, std::move(*settings), std::move(counters), std::move(*client));
}

void Session::model_loaded(const llama_model* model, std::vector<std::string> files, const llama_model_params& params) {
  Model entry;
  entry.simulated = params.vocab_only || params.no_alloc;
  if (!entry.simulated) {
    const std::string& base = settings_.cache_directory;
    entry.identity = std::make_unique<ModelIdentity>(std::move(files), overrides_encoding(params),
                                                     base.empty() ? std::string() : base + "/weights");
  }
  MutexLock lock(mutex_);
  models_[model] = std::move(entry);
}

void Session::model_freed(const llama_model* model) {
  Model dying;  // its thread is joined outside the lock
  MutexLock lock(mutex_);
  const auto at = models_.find(model);
  if (at == models_.end()) return;
  dying = std::move(at->second);
  models_.erase(at);
}

void Session::adapter_loaded(const llama_adapter_lora* adapter, const std::string& path) {
  const auto digest = digest_file(path, {}, [] { return false; });
  MutexLock lock(mutex_);
  if (digest) adapters_[adapter] = *digest;
}

void Session::adapter_freed(const llama_adapter_lora* adapter) {
  MutexLock lock(mutex_);
  adapters_.erase(adapter);
}

bool Session::adapters_in_use(llama_adapter_lora* const* adapters, const float* scales, size_t count,
                              std::vector<AdapterUse>& uses) {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < count; ++i) {
    if (scales[i] == 0.0F) continue;  // changes nothing
    const auto at = adapters_.find(adapters[i]);
    if (at == adapters_.end()) return false;
    uses.push_back(AdapterUse{at->second, scales[i]});
  }
  return true;
}

llama_context* Session::pass_through(llama_model* model, const llama_context_params& params, const char* reason) {
  counters_->add(Counter::kContextsPassedThrough);
  log_once(reason, "passed through untouched: {}", reason);
  return api_.init_from_model(model, params);
}

llama_context* Session::make_context(llama_model* model, const llama_context_params& params) {
  const ModelIdentity* identity = nullptr;
  {
    MutexLock lock(mutex_);
    const auto at = models_.find(model);
    if (at != models_.end() && at->second.simulated) return api_.init_from_model(model, params);
    Model& entry = models_[model];
    if (!entry.identity) {  // made in memory, or loaded before this library was: its weights have no name
      entry.identity = std::make_unique<ModelIdentity>(std::vector<std::string>{}, std::string(), std::string());
    }
    identity = entry.identity.get();
  }
  const ContextPlan plan = plan_context(api_, model, params, settings_.exact);
  if (!plan.attach) return pass_through(model, params, plan.why_not);
  llama_context* context = api_.init_from_model(model, plan.params);
  if (context == nullptr) return pass_through(model, params, "the context could not be made with a sequence more");
  auto connector = Connector::attach(api_, context, plan, *identity, *client_, *counters_,
                                     ConnectorOptions{settings_.restore, settings_.tenant, settings_.memory_bytes});
  if (!connector) {
    api_.free(context);
    return pass_through(model, params, connector.error().reason);
  }
  MutexLock lock(mutex_);
  by_memory_[api_.get_memory(context)] = connector->get();
  connectors_[context] = std::move(*connector);
  return context;
}

void Session::context_freed(const llama_context* context) {
  std::unique_ptr<Connector> dying;
  MutexLock lock(mutex_);
  const auto at = connectors_.find(context);
  if (at == connectors_.end()) return;
  dying = std::move(at->second);
  connectors_.erase(at);
  by_memory_.erase(api_.get_memory(context));
}

Connector* Session::connector_of(const llama_context* context) {
  MutexLock lock(mutex_);
  const auto at = connectors_.find(context);
  return at == connectors_.end() ? nullptr : at->second.get();
}

Connector* Session::connector_of(llama_memory_t memory) {
  MutexLock lock(mutex_);
  const auto at = by_memory_.find(memory);
  return at == by_memory_.end() ? nullptr : at->second;
}

}  // namespace rhizome
