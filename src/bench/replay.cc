#include "bench/replay.h"

#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/capacity.h"
#include "bench/progress.h"
#include "bench/replay_orders.h"
#include "bench/text.h"
#include "bench/trace.h"

namespace rhizome {
namespace {

using namespace bench;

constexpr std::string_view kName = "rhizome replay";
constexpr int kFailed = 1;
constexpr int kCalledWrongly = 2;
constexpr int kCapacityWidth = 12;
constexpr int kPercentWidth = 10;

struct Options {
  std::string trace;
  std::vector<std::string> capacities = {"1000", "3000", "10000", "30000", "50000", "100000"};
  bool json = false;
};

// What all orders made of a cache of one size.
struct Row {
  std::string capacity;  // as it was typed, or "infinite"
  uint32_t blocks = 0;
  std::vector<Hits> hits;  // of each of replay_orders()
};

std::unique_ptr<CLI::App> make_parser(Options& options) {
  auto app = std::make_unique<CLI::App>(
      "Plays a trace of requests against caches of given sizes, and prints how much of what was asked for each "
      "eviction\n"
      "order would have hit: a hit counts while the prefix is unbroken.",
      std::string(kName));
  app->add_option("TRACE", options.trace,
                  "conversation or synthetic (Mooncake's, they come with the program), or a file in their format:\n"
                  "one JSON object a line with input_length and hash_ids, plain or compressed with zstd")
      ->required();
  app->add_option("--capacity", options.capacities, "Sizes of the cache: blocks (10000) or shares of all blocks (5%)")
      ->delimiter(',')
      ->type_name("N,N%,...")
      ->default_str("1000,3000,10000,30000,50000,100000");
  app->add_flag("--json", options.json, "One JSON object a line for each size on standard output, nothing else there");
  std::string footer = "Orders:\n";
  for (const ReplayOrder& order : replay_orders())
    footer +=
        "  " + std::string(order.name) + std::string(12 - order.name.size(), ' ') + std::string(order.what) + "\n";
  app->footer(footer + "\nExample: rhizome replay conversation --capacity 1%,5%,10000");
  return app;
}

std::optional<int> parse(const ReplayCall& call, Options& options) {
  const std::unique_ptr<CLI::App> app = make_parser(options);
  std::vector<std::string> reversed(call.arguments.rbegin(), call.arguments.rend());
  try {
    app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app->help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << kName << ": " << error.what() << "; see rhizome replay --help\n";
    return kCalledWrongly;
  }
  return std::nullopt;
}

// Rows without hits. kInvalidArgument: a capacity that is none.
Result<std::vector<Row>> plan_rows(const Options& options, const Trace& trace, std::string& wrong) {
  std::vector<Row> rows;
  for (const std::string& text : options.capacities) {
    const Result<uint32_t> blocks = parse_capacity(text, trace.distinct(), wrong);
    if (!blocks) return fail(blocks.error());
    rows.push_back({text, *blocks, {}});
  }
  rows.push_back({"infinite", trace.distinct(), {}});
  return rows;
}

// False when the index is broken.
bool play(const Trace& trace, std::vector<Row>& rows) {
  Progress progress(kName);
  for (Row& row : rows) {
    progress.begin("a cache of " + with_commas(row.blocks) + " blocks", static_cast<uint32_t>(replay_orders().size()));
    for (const ReplayOrder& order : replay_orders()) {
      const Result<Hits> hits = order.replay(trace, row.blocks);
      if (!hits) {
        progress.pause();
        std::cerr << kName << ": " << order.name << " at " << row.blocks << " blocks: " << hits.error().reason << "\n";
        return false;
      }
      row.hits.push_back(*hits);
      progress.step();
    }
  }
  return true;
}

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double block_percent(const Hits& hits, const Trace& trace) {
  return percent(hits.blocks, trace.block_uses);
}

double token_percent(const Hits& hits, const Trace& trace) {
  return percent(hits.tokens, trace.input_tokens);
}

void print_table(std::string_view title, const Trace& trace, const std::vector<Row>& rows,
                 double (*share)(const Hits&, const Trace&)) {
  std::cout << "\n" << title << "\n" << std::right << std::setw(kCapacityWidth) << "capacity";
  for (const ReplayOrder& order : replay_orders())
    std::cout << std::setw(kPercentWidth) << order.name;
  std::cout << "\n";
  for (const Row& row : rows) {
    std::cout << std::setw(kCapacityWidth) << row.capacity;
    for (const Hits& hits : row.hits)
      std::cout << std::setw(kPercentWidth) << fixed(share(hits, trace), 2);
    std::cout << "\n";
  }
}

void print_json(const std::string& name, const Trace& trace, const Row& row) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::object();
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  for (size_t i = 0; i < row.hits.size(); ++i) {
    const std::string order(replay_orders()[i].name);
    blocks[order] = block_percent(row.hits[i], trace);
    tokens[order] = token_percent(row.hits[i], trace);
  }
  nlohmann::ordered_json line;
  line["trace"] = name;
  line["requests"] = trace.requests.size();
  line["blocks"] = trace.block_uses;
  line["distinct_blocks"] = trace.distinct();
  line["capacity"] = row.capacity;
  line["capacity_blocks"] = row.blocks;
  line["block_hit_percent"] = std::move(blocks);
  line["token_hit_percent"] = std::move(tokens);
  std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print(const std::string& name, const Trace& trace, const std::vector<Row>& rows, bool json) {
  if (json) {
    for (const Row& row : rows)
      print_json(name, trace, row);
    std::cout << std::flush;
    return;
  }
  std::cout << name << ": " << with_commas(trace.requests.size()) << " requests, " << with_commas(trace.block_uses)
            << " blocks, " << with_commas(trace.distinct()) << " of them distinct\n";
  print_table("Blocks hit, in percent", trace, rows, block_percent);
  print_table("Tokens hit, in percent", trace, rows, token_percent);
  std::cout << std::flush;
}

}  // namespace

int replay_main(const ReplayCall& call) {
  Options options;
  if (const std::optional<int> status = parse(call, options)) return *status;
  const std::string bundled = bundled_trace(call.program, options.trace);
  std::string wrong;
  const Result<Trace> trace = load_trace(bundled.empty() ? options.trace : bundled, wrong);
  if (!trace) {
    const bool is_absent = trace.error().code == Code::kNotFound;
    std::cerr << kName << ": " << wrong;
    if (is_absent && bundled.empty()) std::cerr << "; give a file, or conversation, or synthetic";
    std::cerr << "\n";
    return is_absent && bundled.empty() ? kCalledWrongly : kFailed;
  }
  Result<std::vector<Row>> rows = plan_rows(options, *trace, wrong);
  if (!rows) {
    std::cerr << kName << ": --capacity: " << wrong << "\n";
    return kCalledWrongly;
  }
  if (!play(*trace, *rows)) return kFailed;
  print(options.trace, *trace, *rows, options.json);
  return 0;
}

std::string replay_help() {
  Options options;
  return make_parser(options)->help();
}

}  // namespace rhizome
