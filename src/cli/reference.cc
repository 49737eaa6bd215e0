#include "cli/reference.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "bench/bench.h"
#include "bench/replay.h"
#include "cli/command_text.h"
#include "cli/flag_table.h"
#include "cli/program.h"
#include "serve/http/exposition.h"

namespace rhizome {
namespace {

constexpr std::string_view kRules =
    "Exit status: 0 done, 1 it failed, 2 the call was wrong; `run` ends with its program's own status (127: there is "
    "no such program). Errors are one line on standard error. Sizes have a unit: `64MiB`, `4GiB`, `500MB`. SIGINT and "
    "SIGTERM stop `serve` and `daemon` in order within 5 s.\n\n"
    "What is typed goes before the environment, that before the `--config` file, that before the defaults. In the "
    "environment a switch is on with `1` and off with `0`, and a size may be a plain number of bytes.\n";

constexpr std::string_view kOtherVariables =
    "| `RHIZOME_LOG` | `quiet` (errors only), `info` or `debug` |\n"
    "| `RHIZOME_COUNTERS` | set by `serve` and `run`: the page of counters that the engine's process adds to |\n"
    "| `XDG_RUNTIME_DIR` | where that page and the node's socket lie, in `rhizome/`; else `rhizome-<user id>` under "
    "`TMPDIR` or `/tmp` |\n";

std::string with_ticks(std::string_view text) {
  return "`" + std::string(text) + "`";
}

// A cell of a table may not hold the sign that divides cells.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string flag_usage(const Flag& flag) {
  return "--" + std::string(flag.name) + (flag.is_switch() ? "" : " " + std::string(flag.value));
}

std::string code_block(std::string_view text) {
  return "```\n" + std::string(text) + "\n```\n";
}

// What a command says about itself where its text is not in the table.
std::string shown(const CommandText& command) {
  if (command.name == "bench") return bench_help();
  if (command.name == "replay") return replay_help();
  return std::string(command.example);
}

std::string commands_section() {
  std::string text = "## Commands\n\n";
  for (const CommandText& command : commands()) {
    text += "### rhizome " + std::string(command.name) + "\n\n" + std::string(command.line) + ".\n\n";
    text += code_block("rhizome " + std::string(command.usage)) + "\n";
    if (!command.description.empty()) text += std::string(command.description) + "\n\n";
    text += code_block(shown(command)) + "\n";
  }
  return text + std::string(kRules) + "\n";
}

std::string flags_section() {
  std::string text =
      "## Cache flags\n\nThe same for `serve`, `run` and `daemon`.\n\n| flag | environment | default | what it does "
      "|\n| --- | "
      "--- | --- | --- |\n";
  for (const Flag& flag : cache_flags()) {
    text += "| " + with_ticks(cell(flag_usage(flag))) + " | " + with_ticks(environment_name(flag.name)) + " | " +
            cell(flag.fallback) + " | " + cell(flag.text) + " |\n";
  }
  text += "\nBeside these:\n\n| variable | meaning |\n| --- | --- |\n" + std::string(kOtherVariables) + "\n";
  return text;
}

std::string_view kind_name(CounterKind kind) {
  return kind == CounterKind::kGauge ? "gauge" : "counter";
}

std::string metrics_section() {
  const auto counters = Counters::local();
  const std::vector<Sample> samples = samples_of(*counters);
  std::string text =
      "## Metrics\n\n`GET /metrics` on `--metrics-port`, in Prometheus' text format; `GET /health` beside it answers "
      "503 "
      "while the program stops.\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n";
  std::vector<std::string_view> done;
  for (const Sample& sample : samples) {
    const std::string_view name = sample.described.name;
    if (std::ranges::find(done, name) != done.end()) continue;
    done.push_back(name);
    std::string labels;
    for (const Sample& other : samples) {
      if (other.described.name != name || other.described.labels.empty()) continue;
      labels += (labels.empty() ? "" : "<br>") + with_ticks(other.described.labels);
    }
    text += "| " + with_ticks(name) + " | " + std::string(kind_name(sample.described.kind)) + " | " + cell(labels) +
            " | " + cell(sample.described.help) + " |\n";
  }
  return text;
}

std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == '\n')
      escaped += "\n.br\n";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string reference_page() {
  return "# Reference\n\nMade from the program's own tables by `rhizome reference`; do not edit.\n\n" +
         commands_section() + flags_section() + metrics_section();
}

std::string bash_completion() {
  std::string names;
  for (const CommandText& command : commands())
    names += (names.empty() ? "" : " ") + std::string(command.name);
  std::string flags = "--help";
  for (const Flag& flag : cache_flags())
    flags += " --" + std::string(flag.name);
  return "# Completion of rhizome for bash, made by `rhizome reference --completion bash`.\n"
         "_rhizome() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]}\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names +
         " --help --version' -- \"$word\")\n"
         "  elif [[ $word == --* && ${COMP_WORDS[1]} == @(serve|run|daemon) ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         flags +
         "' -- \"$word\")\n"
         "  fi\n"
         "}\n"
         "complete -o default -F _rhizome rhizome\n";
}

std::string man_page() {
  std::string text = ".TH RHIZOME 1 \"\" \"rhizome " RHIZOME_VERSION
                     "\"\n.SH NAME\nrhizome \\- a KV cache shared by agents, engines and machines\n.SH SYNOPSIS\n";
  for (const CommandText& command : commands())
    text += ".B rhizome " + roff(command.usage) + "\n.br\n";
  for (const CommandText& command : commands()) {
    text += ".SH RHIZOME " + std::string(command.name) + "\n" + roff(command.line) + ".\n";
    if (!command.description.empty()) text += ".PP\n" + roff(command.description) + "\n";
    text += ".PP\n.nf\n" + roff(shown(command)) + "\n.fi\n";
  }
  text += ".SH CACHE FLAGS\n";
  for (const Flag& flag : cache_flags()) {
    text += ".TP\n.B " + roff(flag_usage(flag)) + "\n" + roff(flag.text);
    if (!flag.fallback.empty()) text += " Default: " + roff(flag.fallback) + ".";
    text += "\n";
  }
  return text + ".SH EXIT STATUS\n0 done, 1 it failed, 2 the call was wrong; of run, the program\\(aqs own.\n";
}

}  // namespace rhizome
