#include "client/c/call.h"

#include <algorithm>
#include <cstring>

namespace rhizome {
namespace {

constexpr size_t kErrorBytesMin = 16;
// Larger than any struct will ever be, and smaller than what stands where a size was forgotten.
constexpr size_t kOptionsBytesMax = 4096;
constexpr size_t kTokensMax = size_t{1} << 30;

static_assert(sizeof(rhizome_error) == 264);
static_assert(offsetof(rhizome_error, message) < kErrorBytesMin);
static_assert(RHIZOME_UNAUTHENTICATED == static_cast<int>(Code::kUnauthenticated));

}  // namespace

rhizome_code tell(rhizome_error* error, Code code, std::string_view message) noexcept {
  const auto told = static_cast<rhizome_code>(code);
  if (error == nullptr || error->struct_size < kErrorBytesMin) return told;
  error->code = told;
  const size_t room = std::min(error->struct_size, sizeof(rhizome_error)) - offsetof(rhizome_error, message);
  const size_t length = std::min(message.size(), room - 1);
  std::memcpy(error->message, message.data(), length);
  error->message[length] = '\0';
  return told;
}

Status copy_options(std::span<std::byte> known, const void* given, size_t bytes_min) {
  if (given == nullptr) return fail(Code::kInvalidArgument, "the options are NULL");
  size_t bytes = 0;
  std::memcpy(&bytes, given, sizeof bytes);
  if (bytes < bytes_min || bytes > kOptionsBytesMax) {
    return fail(Code::kInvalidArgument, "the struct_size of the options is wrong: begin with their _INIT");
  }
  const auto* const all = static_cast<const std::byte*>(given);
  const size_t common = std::min(bytes, known.size());
  if (std::any_of(all + common, all + bytes, [](std::byte byte) { return byte != std::byte{0}; })) {
    return fail(Code::kUnimplemented, "an option that this version of the library does not know");
  }
  std::memcpy(known.data(), all, common);
  return {};
}

Result<std::span<const Token>> read_tokens(const uint32_t* tokens, size_t count) {
  if (tokens == nullptr && count > 0) return fail(Code::kInvalidArgument, "the tokens are NULL");
  if (count > kTokensMax) return fail(Code::kInvalidArgument, "more than 2^30 tokens");
  return std::span<const Token>(tokens, count);
}

}  // namespace rhizome
