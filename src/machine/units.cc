#include "machine/units.h"

#include <limits>
#include <optional>
#include <span>

namespace rhizome {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr Unit kBytesUnits[] = {
    {"b", 1},      {"kib", 1ull << 10}, {"mib", 1ull << 20},   {"gib", 1ull << 30},       {"tib", 1ull << 40},
    {"kb", 1'000}, {"mb", 1'000'000},   {"gb", 1'000'000'000}, {"tb", 1'000'000'000'000},
};
constexpr Unit kDurationUnits[] = {
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60ull * 1'000'000'000},
    {"h", 3'600ull * 1'000'000'000},
    {"d", 86'400ull * 1'000'000'000},
};

// More digits than this say nothing that fits 64 bits.
constexpr size_t kFractionDigitsMax = 9;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

struct Number {
  uint64_t whole = 0;
  uint64_t fraction = 0;        // in units of 1 / fraction_scale
  uint64_t fraction_scale = 1;  // a power of ten
};

// Takes the number off the head of `text`.
std::optional<Number> take_number(std::string_view& text) {
  Number number;
  size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const uint64_t digit = static_cast<uint64_t>(text[at] - '0');
    if (__builtin_mul_overflow(number.whole, 10, &number.whole)) return std::nullopt;
    if (__builtin_add_overflow(number.whole, digit, &number.whole)) return std::nullopt;
  }
  if (at == 0) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    const size_t first = ++at;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      if (at - first == kFractionDigitsMax) return std::nullopt;
      number.fraction = number.fraction * 10 + static_cast<uint64_t>(text[at] - '0');
      number.fraction_scale *= 10;
    }
    if (at == first) return std::nullopt;
  }
  text.remove_prefix(at);
  return number;
}

std::optional<uint64_t> scale(const Number& number, uint64_t factor) {
  const unsigned __int128 scaled = static_cast<unsigned __int128>(number.whole) * factor +
                                   static_cast<unsigned __int128>(number.fraction) * factor / number.fraction_scale;
  if (scaled > std::numeric_limits<uint64_t>::max()) return std::nullopt;
  return static_cast<uint64_t>(scaled);
}

Result<uint64_t> parse(std::string_view text, std::span<const Unit> units, bool plain_allowed, const char* reason) {
  const std::optional<Number> number = take_number(text);
  if (!number) return fail(Code::kInvalidArgument, reason);
  if (text.empty() && plain_allowed && number->fraction_scale == 1) return number->whole;
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const std::string name = lower_case(text);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const std::optional<uint64_t> value = scale(*number, unit.factor);
    if (!value) return fail(Code::kInvalidArgument, reason);
    return *value;
  }
  return fail(Code::kInvalidArgument, reason);
}

// In the largest unit that gives at least one, with a digit behind the point unless that is zero.
std::string format(uint64_t value, std::span<const Unit> units_descending) {
  for (const Unit& unit : units_descending) {
    if (value < unit.factor && unit.factor != 1) continue;
    uint64_t whole = value / unit.factor;
    uint64_t tenths = static_cast<uint64_t>(static_cast<unsigned __int128>(value % unit.factor) * 10 / unit.factor);
    const uint64_t rest = static_cast<uint64_t>(static_cast<unsigned __int128>(value % unit.factor) * 10 % unit.factor);
    if (rest >= unit.factor - rest && ++tenths == 10) {
      tenths = 0;
      ++whole;
    }
    std::string text = std::to_string(whole);
    if (tenths != 0) text.append(".").append(std::to_string(tenths));
    return text.append(unit.name);
  }
  return {};
}

constexpr const char* kBadBytes = "not a size: write a number and a unit, for example 64MiB";
constexpr const char* kBadDuration = "not a duration: write a number and a unit, for example 250ms";

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  return parse(text, kBytesUnits, false, kBadBytes);
}

Result<uint64_t> parse_bytes_or_plain(std::string_view text) {
  return parse(text, kBytesUnits, true, kBadBytes);
}

std::string format_bytes(uint64_t bytes) {
  static constexpr Unit kUnits[] = {
      {"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}};
  return format(bytes, kUnits);
}

Result<uint64_t> parse_duration_ns(std::string_view text) {
  return parse(text, kDurationUnits, false, kBadDuration);
}

std::string format_duration(uint64_t duration_ns) {
  static constexpr Unit kUnits[] = {{"d", 86'400ull * 1'000'000'000},
                                    {"h", 3'600ull * 1'000'000'000},
                                    {"m", 60ull * 1'000'000'000},
                                    {"s", 1'000'000'000},
                                    {"ms", 1'000'000},
                                    {"us", 1'000},
                                    {"ns", 1}};
  return format(duration_ns, kUnits);
}

std::string format_count(uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace rhizome
