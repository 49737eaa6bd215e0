#include "bench/comparison.h"

#include <algorithm>
#include <limits>

#include "bench/text.h"
#include "bench/workload.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kUsualBlockTokens = 16;
constexpr size_t kNameWidth = 30;
constexpr size_t kValueWidth = 26;

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

}  // namespace

std::string figure_prefix(std::string_view contestant) {
  return contestant == "h64" ? "" : std::string(contestant) + "_";
}

bool is_baseline(std::string_view contestant) {
  return contestant == "lock_tree" || contestant == "hash_map";
}

std::string figure_suffix(uint32_t threads, uint32_t block_tokens) {
  const std::string suffix = "_" + std::to_string(threads) + "t";
  return block_tokens == kUsualBlockTokens ? suffix : suffix + "_b" + std::to_string(block_tokens);
}

Comparison::Comparison(std::string measure, std::string suffix, std::string unit)
    : measure_(std::move(measure)), suffix_(std::move(suffix)), unit_(std::move(unit)) {}

void Comparison::add(std::string_view contestant, double value) {
  for (auto& [name, values] : rounds_) {
    if (name != contestant) continue;
    values.push_back(value);
    return;
  }
  rounds_.push_back({std::string(contestant), {value}});
}

const std::vector<double>* Comparison::find(std::string_view contestant) const {
  for (const auto& [name, values] : rounds_) {
    if (name == contestant) return &values;
  }
  return nullptr;
}

double Comparison::median_of(std::string_view contestant) const {
  const std::vector<double>* values = find(contestant);
  return values == nullptr ? std::numeric_limits<double>::quiet_NaN() : median(*values);
}

double Comparison::ratio(std::string_view over, std::string_view under) const {
  const std::vector<double>* above = find(over);
  const std::vector<double>* below = find(under);
  if (above == nullptr || below == nullptr) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(above->size(), below->size()); ++round)
    ratios.push_back((*above)[round] / (*below)[round]);
  return median(std::move(ratios));
}

void Comparison::report(Report& report, bool more_is_better) const {
  std::string line = padded(measure_ + suffix_, kNameWidth);
  for (const auto& [name, values] : rounds_) {
    const double value = median(values);
    report.figure(measure_ + "_" + unit_ + "_" + name + suffix_, value);
    line += padded(name + " " + fixed(value, value < 100 ? 2 : 0) + " " + unit_, kValueWidth);
  }
  report.note(line);
  for (const auto& [ours, values] : rounds_) {
    if (is_baseline(ours)) continue;
    for (const auto& [baseline, unused] : rounds_) {
      if (!is_baseline(baseline)) continue;
      report.figure("ratio_" + figure_prefix(ours) + measure_ + "_vs_" + baseline + suffix_,
                    more_is_better ? ratio(ours, baseline) : ratio(baseline, ours));
    }
  }
}

}  // namespace rhizome::bench
