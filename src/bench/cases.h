// What `rhizome bench agents` can measure. Each case starts the servers that it needs, prints its part of the table and
// sets its figures.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/agents_run.h"
#include "bench/picture.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/server_process.h"

namespace rhizome::bench {

// What all cases share in one run.
struct Stage {
  const Locations& where;
  const bool quick;
  Fleet& fleet;
  Progress& progress;
  Report& report;
  std::vector<PicturePanel> panels;
  std::vector<std::string> last_words;  // lines that end the run, instead of the list of figures

  // The model of this run.
  const std::string& model() const { return quick ? where.quick_model : where.full_model; }
  // A quick run must also end on a busy machine, where two threads that wait for one another spin away their time.
  uint32_t threads() const { return quick ? 1 : 2; }
  std::function<void()> step() {
    return [this] { progress.step(); };
  }
};

// A failure means that the case could not be measured: a server did not start or did not answer. That an answer
// differs or counts disagree is Report::failure.
struct Case {
  std::string_view name;
  std::string_view what;
  Status (*run)(Stage&);
};

// Those that run when none is named.
std::span<const Case> agent_cases();
// Also the one that only runs when it is named. Null when there is none.
const Case* find_case(std::string_view name);

Status run_ttft(Stage& stage);
Status run_turns(Stage& stage);
Status run_at_once(Stage& stage);
Status run_own_text(Stage& stage);
Status run_single_flight(Stage& stage);
Status run_small_context(Stage& stage);
Status run_exact(Stage& stage);
Status run_window(Stage& stage);
Status run_prefill(Stage& stage);
Status run_decode(Stage& stage);
Status run_restore(Stage& stage);
Status run_memory(Stage& stage);
Status run_restart(Stage& stage);
// The same with --exact and fewer prompts: answers that differ make the run a failed one.
Status show_restart(Stage& stage);
Status run_demo(Stage& stage);

}  // namespace rhizome::bench
