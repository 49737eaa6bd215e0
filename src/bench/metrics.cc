#include "bench/metrics.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace rhizome::bench {
namespace {

// Labels may stand in any order, so they are sorted: `name{a="b",c="d"}`. No label value of ours holds a comma.
std::string sample_key(std::string_view name, std::string_view labels) {
  std::vector<std::string_view> parts;
  while (!labels.empty()) {
    const size_t comma = labels.find(',');
    if (const std::string_view part = labels.substr(0, comma); !part.empty()) parts.push_back(part);
    if (comma == std::string_view::npos) break;
    labels.remove_prefix(comma + 1);
  }
  std::sort(parts.begin(), parts.end());
  std::string key(name);
  for (const std::string_view part : parts)
    key.append("|").append(part);
  return key;
}

std::string key_of(Counter counter) {
  const CounterInfo& info = counter_info(counter);
  return sample_key(info.name, info.labels);
}

}  // namespace

Metrics Metrics::parse(std::string_view text) {
  Metrics metrics;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t space = line.rfind(' ');
    if (line.empty() || line.front() == '#' || space == std::string_view::npos) continue;
    const std::string_view series = line.substr(0, space);
    const size_t brace = series.find('{');
    const std::string_view name = series.substr(0, brace);
    std::string_view labels;
    if (brace != std::string_view::npos && series.back() == '}')
      labels = series.substr(brace + 1, series.size() - brace - 2);
    metrics.samples_[sample_key(name, labels)] = std::strtod(std::string(line.substr(space + 1)).c_str(), nullptr);
  }
  return metrics;
}

double Metrics::value(Counter counter) const {
  const auto found = samples_.find(key_of(counter));
  return found == samples_.end() ? 0 : found->second;
}

bool Metrics::has(Counter counter) const {
  return samples_.contains(key_of(counter));
}

}  // namespace rhizome::bench
