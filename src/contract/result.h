// Result<T>: an operating error as a value. The three kinds of "no" in Rhizome are kept apart:
// an outcome (hit, miss, busy) is an ordinary value, an operating error is a Result, and a
// programmer's mistake is an assert (contract/check.h). A miss is not an error.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace rhizome {

// gRPC's canonical codes (google.rpc.Code), so that serving an error is a cast and not a table.
enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The canonical name, for example "INVALID_ARGUMENT".
std::string_view code_name(Code code);

// `reason` is a string literal: no text is built below the edge of the system.
struct Error {
  Code code = Code::kUnknown;
  const char* reason = "";

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code; }
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, const char* reason) {
  return tl::unexpected<Error>(Error{code, reason});
}

inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(error);
}

}  // namespace rhizome
