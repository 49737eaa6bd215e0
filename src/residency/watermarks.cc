#include "residency/watermarks.h"

#include <charconv>

namespace rhizome {
namespace {

constexpr uint32_t kPercentMax = 100;

std::optional<uint32_t> percent(std::string_view text) {
  uint32_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || number > kPercentMax) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Watermarks> parse_watermarks(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<uint32_t> high = percent(text.substr(0, colon));
  const std::optional<uint32_t> low = percent(text.substr(colon + 1));
  if (!high || !low || *low == 0 || *low >= *high) return std::nullopt;
  return Watermarks{*high, *low};
}

}  // namespace rhizome
