#include "serve/http/exposition.h"

#include <algorithm>
#include <array>

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "contract/check.h"

namespace rhizome {
namespace {

// Names that dashboards made for PHANTOM ask for.
constexpr CounterInfo kPhantomHits{CounterKind::kTotal, "phantom_cache_hits_total", "",
                                   "Prompts that found at least one token in the cache (rhizome_lookups_hit_total)."};
constexpr CounterInfo kPhantomMisses{CounterKind::kTotal, "phantom_cache_misses_total", "",
                                     "Prompts that found nothing in the cache."};
constexpr CounterInfo kPhantomUsed{CounterKind::kGauge, "phantom_blocks_used", "",
                                   "Committed blocks (rhizome_blocks_stored)."};
constexpr CounterInfo kPhantomTotal{
    CounterKind::kGauge, "phantom_blocks_total", "",
    "Blocks of the present average size that the memory budget holds; 0 while none is stored."};

// The serializer escapes label values itself, so the table's escapes are undone first.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    ++i;
    plain += text[i] == 'n' ? '\n' : text[i];
  }
  return plain;
}

// The serializer leaves help texts as they are.
std::string escaped_help(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// `a="x",b="y"`. The table is the program's own text: anything else is a mistake in it.
std::vector<prometheus::ClientMetric::Label> labels_of(std::string_view text) {
  std::vector<prometheus::ClientMetric::Label> labels;
  while (!text.empty()) {
    const size_t equals = text.find("=\"");
    RHIZOME_CHECK(equals != std::string_view::npos && equals > 0);
    size_t end = equals + 2;
    while (end < text.size() && text[end] != '"')
      end += text[end] == '\\' ? 2 : 1;
    RHIZOME_CHECK(end < text.size());
    labels.push_back({std::string(text.substr(0, equals)), unescaped(text.substr(equals + 2, end - equals - 2))});
    text.remove_prefix(end + 1);
    if (text.empty()) break;
    RHIZOME_CHECK(text.front() == ',');
    text.remove_prefix(1);
  }
  return labels;
}

prometheus::ClientMetric metric_of(const Sample& sample) {
  prometheus::ClientMetric metric;
  metric.label = labels_of(sample.described.labels);
  const auto value = static_cast<double>(sample.value);
  switch (sample.described.kind) {
    case CounterKind::kTotal:
      metric.counter.value = value;
      break;
    case CounterKind::kNanoseconds:
      metric.counter.value = value / 1e9;
      break;
    case CounterKind::kGauge:
      metric.gauge.value = value;
      break;
  }
  return metric;
}

void append_phantom_names(const Counters& counters, std::vector<Sample>& samples) {
  const uint64_t lookups = counters.get(Counter::kLookups);
  // The page is not read at one instant: a look-up may have been counted between the two reads.
  const uint64_t hits = std::min(counters.get(Counter::kLookupsHit), lookups);
  const uint64_t stored = counters.get(Counter::kBlocksStored);
  const uint64_t used = counters.get(Counter::kMemoryUsed);
  const double capacity = static_cast<double>(counters.get(Counter::kMemoryCapacity));
  const double fit = used == 0 ? 0.0 : capacity / static_cast<double>(used) * static_cast<double>(stored);
  samples.push_back({kPhantomHits, hits});
  samples.push_back({kPhantomMisses, lookups - hits});
  samples.push_back({kPhantomUsed, stored});
  samples.push_back({kPhantomTotal, static_cast<uint64_t>(fit)});
}

}  // namespace

std::string exposition(std::span<const Sample> samples) {
  std::vector<prometheus::MetricFamily> families;
  for (const Sample& sample : samples) {
    auto family = std::ranges::find(families, sample.described.name, &prometheus::MetricFamily::name);
    if (family == families.end()) {
      const bool gauge = sample.described.kind == CounterKind::kGauge;
      families.push_back({std::string(sample.described.name),
                          escaped_help(sample.described.help),
                          gauge ? prometheus::MetricType::Gauge : prometheus::MetricType::Counter,
                          {}});
      family = std::prev(families.end());
    }
    family->metric.push_back(metric_of(sample));
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::vector<Sample> samples_of(const Counters& counters) {
  std::vector<Sample> samples;
  samples.reserve(kCountersCount + 4);
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    samples.push_back({counter_info(counter), counters.get(counter)});
  }
  append_phantom_names(counters, samples);
  return samples;
}

std::string exposition(const Counters& counters) {
  return exposition(samples_of(counters));
}

}  // namespace rhizome
