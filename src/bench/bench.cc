#include "bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "bench/cases.h"
#include "bench/locations.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/process.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

using namespace bench;

constexpr const char* kBenchName = "agents";
constexpr int kFailed = 1;
constexpr int kCalledWrongly = 2;
constexpr uint64_t kSignalPause = 100'000'000;
constexpr uint64_t kInterruptPatience = 3'000'000'000;

struct Options {
  std::string name;
  std::vector<std::string> cases;
  bool quick = false;
  bool json = false;
  std::string model;
  std::string picture;
};

void declare_options(CLI::App& app, Options& options) {
  app.add_option("NAME", options.name, "The benchmark: agents")->required();
  app.add_option("CASE", options.cases, "What of it; without one, all");
  app.add_flag("--quick", options.quick, "The two-layer model and fewer rounds: under a minute");
  app.add_flag("--json", options.json, "One JSON object on standard output and nothing else there");
  app.add_option("--model", options.model, "Another GGUF model than the one that `make setup` fetched");
  app.add_option(
      "--picture", options.picture,
      "Where to draw the computed tokens of each round (default: build/demo.svg, installed: rhizome-demo.svg)");
  std::string cases = "Cases of `agents`:\n";
  for (const Case& one : agent_cases()) {
    cases += "  " + std::string(one.name) + std::string(16 - one.name.size(), ' ') + std::string(one.what) + "\n";
  }
  cases += "  demo            what `make demo` shows; only when it is named\n\n";
  cases += "Example: rhizome bench agents turns at_once --json";
  app.footer(cases);
}

std::unique_ptr<CLI::App> make_parser(Options& options) {
  auto app = std::make_unique<CLI::App>(
      "Starts llama-server, stock and with Rhizome, sends both the same agents, and measures.", "rhizome bench");
  declare_options(*app, options);
  return app;
}

// Nothing when the call is right; else the exit status.
std::optional<int> parse(const BenchCall& call, Options& options, std::vector<const Case*>& cases) {
  const std::unique_ptr<CLI::App> app = make_parser(options);
  std::vector<std::string> reversed(call.arguments.rbegin(), call.arguments.rend());
  try {
    app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app->help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << "rhizome bench: " << error.what() << "; see rhizome bench --help\n";
    return kCalledWrongly;
  }
  if (options.name != kBenchName) {
    std::cerr << "rhizome bench: there is no benchmark '" << options.name << "'; there is: " << kBenchName << "\n";
    return kCalledWrongly;
  }
  for (const std::string& name : options.cases) {
    const Case* one = find_case(name);
    if (one == nullptr) {
      std::cerr << "rhizome bench: " << kBenchName << " has no case '" << name << "'; see rhizome bench --help\n";
      return kCalledWrongly;
    }
    cases.push_back(one);
  }
  if (cases.empty()) {
    for (const Case& one : agent_cases())
      cases.push_back(&one);
  }
  return std::nullopt;
}

// build/demo.svg of the tree that the program was built in; beside where it was called when it was installed.
std::string picture_path(const Options& options, const std::string& program) {
  if (!options.picture.empty()) return options.picture;
  const size_t build = program.rfind("/build/");
  return build == std::string::npos ? "rhizome-demo.svg" : program.substr(0, build) + "/build/demo.svg";
}

void draw(const Stage& stage, const std::string& path, const std::string& model) {
  const std::string subtitle =
      "llama.cpp server, " + model.substr(model.rfind('/') + 1) + (stage.threads() == 1 ? ", 1 thread" : ", 2 threads");
  const std::string svg = draw_picture(subtitle, stage.panels);
  if (svg.empty()) return;
  if (const Status written = write_file_atomically(path, svg, 0644); !written) {
    std::cerr << "rhizome bench: no picture at " << path << ": " << written.error().reason << "\n";
    return;
  }
  stage.report.note("");
  stage.report.note("Picture: " + path);
}

bool run_cases(Stage& stage, const std::vector<const Case*>& cases) {
  bool all_measured = true;
  for (const Case* one : cases) {
    if (stage.fleet.interrupted()) return false;
    const Status measured = one->run(stage);
    stage.progress.pause();
    if (measured) continue;
    all_measured = false;
    if (!stage.fleet.interrupted())
      std::cerr << "rhizome bench: " << one->name << ": " << measured.error().reason << "\n";
  }
  return all_measured;
}

// Until the run ends, a signal stops its servers, whose requests then fail, and so the run ends.
void watch_signals(SignalWait& signals, Fleet& fleet, const std::atomic<bool>& done) {
  uint64_t patience_ends_ns = UINT64_MAX;
  while (!done) {
    const std::optional<int> signal_number = signals.next(kSignalPause);
    const bool wanted = signal_number && (*signal_number == SIGINT || *signal_number == SIGTERM);
    if (wanted) patience_ends_ns = std::min(patience_ends_ns, monotonic_now_ns() + kInterruptPatience);
    if (wanted || monotonic_now_ns() > patience_ends_ns) fleet.interrupt(monotonic_now_ns() > patience_ends_ns);
  }
}

bool is_colored() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == 0);
}

int measure(const Options& options, const std::vector<const Case*>& cases, const Locations& where,
            SignalWait& signals) {
  const Result<std::unique_ptr<Fleet>> fleet = Fleet::create(where);
  if (!fleet) {
    std::cerr << "rhizome bench: no folder for the servers' logs: " << fleet.error().reason << "\n";
    return kFailed;
  }
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick && options.model.empty());
  Stage stage{where, options.quick, **fleet, progress, report, {}, {}};
  std::atomic<bool> done = false;
  bool all_measured = false;
  Result<Thread> worker = start_thread("bench", [&] {
    all_measured = run_cases(stage, cases);
    done = true;
  });
  if (!worker) return kFailed;
  watch_signals(signals, **fleet, done);
  worker->join();
  if ((*fleet)->interrupted()) {
    std::cerr << "rhizome bench: interrupted; every server was stopped\n";
    return kFailed;
  }
  if (!all_measured || report.failed()) (*fleet)->keep_logs();
  if (stage.last_words.empty()) report.print_figures();
  draw(stage, picture_path(options, where.program), stage.model());
  if (!stage.last_words.empty()) report.note("");
  for (const std::string& line : stage.last_words)
    report.note(line);
  if (options.json) std::cout << report.json(kBenchName, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kFailed;
}

}  // namespace

int bench_main(const BenchCall& call) {
  Options options;
  std::vector<const Case*> cases;
  if (const std::optional<int> status = parse(call, options, cases)) return *status;
  std::string missing;
  const Result<Locations> where = find_locations(call.program, options.model, missing);
  if (!where) {
    std::cerr << "rhizome bench: " << missing << "\n";
    return kFailed;
  }
  Result<SignalWait> signals = SignalWait::create();
  if (!signals) {
    std::cerr << "rhizome bench: " << signals.error().reason << "\n";
    return kFailed;
  }
  return measure(options, cases, *where, *signals);
}

std::string bench_help() {
  Options options;
  return make_parser(options)->help();
}

}  // namespace rhizome
