#include <iostream>
#include <memory>

#include "bench/benchmarks.h"
#include "bench/cases.h"
#include "bench/locations.h"
#include "bench/watched_run.h"
#include "machine/files.h"
#include "machine/process.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "agents";

// build/demo.svg of the tree that the program was built in; beside where it was called when it was installed.
std::string picture_path(const BenchOptions& options, const std::string& program) {
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

int measure(const BenchOptions& options, const std::vector<const Case*>& cases, const Locations& where,
            SignalWait& signals) {
  const Result<std::unique_ptr<Fleet>> fleet = Fleet::create(where);
  if (!fleet) {
    std::cerr << "rhizome bench: no folder for the servers' logs: " << fleet.error().reason << "\n";
    return kBenchFailed;
  }
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick && options.model.empty());
  Stage stage{where, options.quick, **fleet, progress, report, {}, {}};
  bool all_measured = false;
  const Status watched = run_watched(**fleet, signals, [&] { all_measured = run_cases(stage, cases); });
  if (!watched) {
    std::cerr << "rhizome bench: " << watched.error().reason << "\n";
    return kBenchFailed;
  }
  if ((*fleet)->interrupted()) {
    std::cerr << "rhizome bench: interrupted; every server was stopped\n";
    return kBenchFailed;
  }
  if (!all_measured || report.failed()) (*fleet)->keep_logs();
  if (stage.last_words.empty()) report.print_figures();
  draw(stage, picture_path(options, where.program), stage.model());
  if (!stage.last_words.empty()) report.note("");
  for (const std::string& line : stage.last_words)
    report.note(line);
  if (options.json) std::cout << report.json(kBenchName, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kBenchFailed;
}

}  // namespace

std::vector<CaseText> agents_case_texts() {
  std::vector<CaseText> texts;
  for (const Case& one : agent_cases())
    texts.push_back({one.name, one.what});
  texts.push_back({"demo", "what `make demo` shows; only when it is named"});
  return texts;
}

int run_agents_bench(const BenchOptions& options) {
  std::vector<const Case*> cases;
  for (const std::string& name : options.cases)
    cases.push_back(find_case(name));
  if (cases.empty()) {
    for (const Case& one : agent_cases())
      cases.push_back(&one);
  }
  std::string missing;
  const Result<Locations> where = find_locations(options.program, options.model, missing);
  if (!where) {
    std::cerr << "rhizome bench: " << missing << "\n";
    return kBenchFailed;
  }
  Result<SignalWait> signals = SignalWait::create();
  if (!signals) {
    std::cerr << "rhizome bench: " << signals.error().reason << "\n";
    return kBenchFailed;
  }
  return measure(options, cases, *where, *signals);
}

}  // namespace rhizome::bench
