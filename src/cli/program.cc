#include "cli/program.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <string_view>

#include "bench/bench.h"
#include "bench/replay.h"
#include "cli/command_text.h"
#include "cli/complaint.h"
#include "cli/doctor.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/host_commands.h"
#include "cli/inspect.h"
#include "cli/parse.h"
#include "cli/reference.h"
#include "cli/serve.h"
#include "cli/session.h"
#include "machine/process.h"
#include "node/keeper.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

int say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kDone;
}

int wrong_call(const std::string& line) {
  log_error("{}", line);
  return kWrongCall;
}

int bench(const std::vector<std::string>& arguments) {
  const auto parts = find_parts();
  if (!parts) return wrong_call(parts.error());
  return bench_main({.program = parts->program, .arguments = arguments});
}

int replay(const std::vector<std::string>& arguments) {
  const auto parts = find_parts();
  if (!parts) return wrong_call(parts.error());
  return replay_main({.program = parts->program, .arguments = arguments});
}

// What a node with a keeper starts, and nobody else.
int keeper(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) return wrong_call("keeper is what a node starts to hold its memory, not for a call");
  take_all_descriptors();
  return run_keeper(arguments.front()) ? kDone : kFailed;
}

// Prints one of the pages that are made from the program's own tables.
int reference(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return say(reference_page());
  if (arguments == std::vector<std::string>{"--man"}) return say(man_page());
  if (arguments == std::vector<std::string>{"--completion", "bash"}) return say(bash_completion());
  return wrong_call("reference takes --man, --completion bash, or nothing for the page in Markdown");
}

void follow_log_level() {
  const auto level = process_environment("RHIZOME_LOG");
  if (level == "quiet") set_log_level(LogLevel::kError);
  if (level == "debug") set_log_level(LogLevel::kDebug);
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(program_help().c_str(), stderr);
    return kWrongCall;
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") return say(program_help());
  if (first == "--version" || first == "version") return say(version_text());
  const std::vector<std::string> arguments(words.begin() + 1, words.end());
  if (first == "serve") return serve_main(arguments);
  if (first == "run") return run_main(arguments);
  if (first == "daemon") return daemon_main(arguments);
  if (first == "stats") return stats_main(arguments);
  if (first == "clear") return clear_main(arguments);
  if (first == "top") return top_main(arguments);
  if (first == "doctor") return doctor_main(arguments);
  if (first == "bench") return bench(arguments);
  if (first == "replay") return replay(arguments);
  if (first == "inspect") return inspect_main(arguments);
  if (first == "keeper") return keeper(arguments);
  if (first == "reference") return reference(arguments);
  std::string known;
  for (const CommandText& command : commands())
    known += (known.empty() ? "" : ", ") + std::string(command.name);
  return wrong_call("there is no command '" + first + "'; there is " + known + " (rhizome --help)");
}

}  // namespace

std::string version_text() {
  return "rhizome " RHIZOME_VERSION
         "\n"
         "engine  llama.cpp " RHIZOME_LLAMA_VERSION
         "\n"
         "formats counters page 1, keyspace 1, block image 1, disk segment 1, llama.cpp sequence state 3\n";
}

int program_main(const std::vector<std::string>& words) try {
  follow_log_level();
  const int status = dispatch(words);
  // A full disk behind a redirection must not look like success. The two share a descriptor, not what failed.
  if (std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  log_error("the output could not be written in full");
  return status != 0 ? status : kFailed;
} catch (const std::exception& error) {
  // Only what nobody can go on from: no memory.
  log_error("{}", error.what());
  return kFailed;
}

}  // namespace rhizome
