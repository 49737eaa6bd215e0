#include "cli/serve.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/model_file.h"
#include "cli/parse.h"
#include "cli/server_flags.h"
#include "cli/session.h"
#include "cli/split.h"
#include "cli/supervise.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// SIGTERM to exit takes at most 5 s; the rest is for the summary.
constexpr uint64_t kPatience = 4'700'000'000;

int wrong_call(const std::string& line) {
  log_error("{}", line);
  return kWrongCall;
}

int failed(const std::string& line) {
  log_error("{}", line);
  return kFailed;
}

// Bytes of 32 elements of a cache type; 0: not known here.
uint64_t bytes_of_32(const std::string& type) {
  static const std::map<std::string, uint64_t> kKnown = {{"f32", 128},   {"f16", 64},  {"bf16", 64},
                                                         {"q8_0", 34},   {"q4_0", 18}, {"q4_1", 20},
                                                         {"iq4_nl", 18}, {"q5_0", 22}, {"q5_1", 24}};
  const auto found = kKnown.find(type);
  return found == kKnown.end() ? 0 : found->second;
}

// What one block takes at least; 0 where the model's head does not say.
uint64_t block_bytes_least(const GgufHead& head, const CacheFlags& flags, const std::vector<std::string>& theirs,
                           const Environment& environment) {
  const auto k = server_value(theirs, {"-ctk", "--cache-type-k"}, "LLAMA_ARG_CACHE_TYPE_K", environment);
  const auto v = server_value(theirs, {"-ctv", "--cache-type-v"}, "LLAMA_ARG_CACHE_TYPE_V", environment);
  const uint64_t smaller = std::min(bytes_of_32(k.value_or("f16")), bytes_of_32(v.value_or("f16")));
  return head.kv_elements_per_token * flags.block_tokens / 32 * smaller;
}

std::optional<std::string> check_model(const CacheFlags& flags, const std::vector<std::string>& theirs,
                                       const Environment& environment) {
  if (needs_no_model_file(theirs, environment)) return std::nullopt;
  const auto path = server_model(theirs, environment);
  if (!path) return "serve needs a model: rhizome serve -m MODEL.gguf (rhizome serve -- --help: llama-server's flags)";
  const auto head = check_model_file(*path);
  if (!head) return "the model file '" + *path + "' " + head.error().reason;
  const uint64_t block = block_bytes_least(*head, flags, theirs, environment);
  if (flags.off || flags.memory_bytes >= block) return std::nullopt;
  return (flags.memory_source.empty() ? "--memory" : flags.memory_source) + " is " + format_bytes(flags.memory_bytes) +
         "; one block of " + std::to_string(flags.block_tokens) + " tokens of this model takes " + format_bytes(block);
}

const char* signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? "?" : name;
}

int server_status(const Ended& ended) {
  if (ended.killed) return failed("llama-server did not stop in time and was killed");
  const bool by_request = ended.status.signalled && (ended.status.value == SIGTERM || ended.status.value == SIGINT);
  if (ended.asked && (by_request || !ended.status.signalled)) return kDone;
  if (ended.asked_again) {
    // Asked twice it calls exit() in its signal handler, while its other threads compute on what exit() takes down.
    log_warning("llama-server was ended by signal {} (SIG{}) when it was told to stop at once", ended.status.value,
                signal_name(ended.status.value));
    return kDone;
  }
  if (ended.status.signalled) {
    log_error("llama-server was ended by signal {} (SIG{})", ended.status.value, signal_name(ended.status.value));
  } else if (!ended.status.success()) {
    log_error("llama-server ended with status {}; its own lines above say why", ended.status.value);
  }
  return ended.status.shell_status();
}

int start_server(const CacheFlags& flags, const ServerCall& call, const Parts& parts, const Environment& environment) {
  const std::string& server = flags.off ? parts.stock_server : parts.server;
  if (!stamp_file(server))
    return failed("the bundled server is not at " + server + ": build or install it (make build)");
  // Before any thread runs: threads inherit the mask that this sets.
  auto signals = SignalWait::create();
  if (!signals) return failed(signals.error().reason);
  auto session = Session::open(flags, environment);
  if (!session) return failed(session.error());
  for (const std::string& note : call.notes)
    log_warning("{}", note);

  std::vector<std::string> line = {server};
  line.insert(line.end(), call.flags.begin(), call.flags.end());
  SpawnOptions options = session->spawn_options();
  options.own_process_group = true;
  // llama-server forgets a SIGTERM that comes between its handlers and its loop, and nobody would be there to
  // send another.
  options.death_signal = SIGKILL;
  auto child = Child::spawn(line, options);
  if (!child) return failed(server + ": " + child.error().reason);
  const Ended ended = supervise_server(*child, *signals, kPatience, [&] { session->stopping(); });
  const int status = server_status(ended);
  session->finish();
  return status;
}

}  // namespace

int serve_main(const std::vector<std::string>& arguments) {
  const Environment environment = process_environment;
  const CommandText& command = *find_command("serve");
  const auto split = split_serve(arguments);
  if (!split) return wrong_call(split.error());
  if (split->help) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  const auto given = parse_flags(command, split->ours, environment);
  if (!given) return wrong_call(given.error());
  const auto flags = check_flags(*given, total_memory_bytes(), environment);
  if (!flags) return wrong_call(flags.error());
  if (const auto wrong = more_than_a_tenant(*flags)) return wrong_call(*wrong);
  if (const auto wrong = check_model(*flags, split->theirs, environment)) return wrong_call(*wrong);
  const auto call = server_call(*flags, split->theirs, environment);
  if (!call) return wrong_call(call.error());
  const auto parts = find_parts();
  if (!parts) return failed(parts.error());
  return start_server(*flags, *call, *parts, environment);
}

}  // namespace rhizome
