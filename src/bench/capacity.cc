#include "bench/capacity.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rhizome::bench {
namespace {

// True when the whole text is such a number.
template <class Number>
bool read_whole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<uint32_t> parse_capacity(std::string_view text, uint32_t distinct_blocks, std::string& wrong) {
  uint32_t blocks = 0;
  double percent = 0;
  const bool is_share = text.ends_with('%');
  const bool is_read = is_share ? read_whole(text.substr(0, text.size() - 1), percent) : read_whole(text, blocks);
  if (!is_read || !std::isfinite(percent) || percent < 0 || percent > 100) {
    wrong = "'" + std::string(text) + "' must be a number of blocks (10000) or a share of the distinct ones (5%)";
    return fail(Code::kInvalidArgument, "no capacity");
  }
  if (is_share ? percent == 0 : blocks == 0) {
    wrong = "'" + std::string(text) + "' holds nothing: a cache has room for at least one block";
    return fail(Code::kInvalidArgument, "no capacity");
  }
  return is_share ? std::max(1U, static_cast<uint32_t>(distinct_blocks * percent / 100)) : blocks;
}

}  // namespace rhizome::bench
