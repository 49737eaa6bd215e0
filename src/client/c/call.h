// The edge of the C interface: what comes in is checked, what goes out is a code and a text, and no exception passes.
//
// Thread-safety: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string_view>

#include <rhizome/rhizome.h>

#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

// As much of it as `error` has room for; nothing if it is null or too small to be one. Returns the code.
rhizome_code tell(rhizome_error* error, Code code, std::string_view message) noexcept;

// Runs one call and says what came of it. `run` returns a Status.
template <class Run>
rhizome_code answer(rhizome_error* error, Run run) noexcept {
  try {
    const Status done = run();
    return done ? tell(error, Code::kOk, "") : tell(error, done.error().code, done.error().reason);
  } catch (const std::bad_alloc&) {
    return tell(error, Code::kResourceExhausted, "out of memory");
  } catch (const std::exception& exception) {
    return tell(error, Code::kUnknown, exception.what());
  } catch (...) {
    return tell(error, Code::kUnknown, "an exception of no known kind");
  }
}

// The same for calls that return a value and say no more: `otherwise` for whatever went wrong.
template <class Value, class Run>
Value value_or(Value otherwise, Run run) noexcept {
  try {
    return run();
  } catch (...) {
    return otherwise;
  }
}

// Copies a struct that may be older or newer than this library's. `bytes_min` is the size that it had at first; what
// the caller's does not have keeps the value in `known`. What ours does not have must be zero, as Linux's
// copy_struct_from_user() demands: kUnimplemented. kInvalidArgument: null, or a size that no version ever had.
Status copy_options(std::span<std::byte> known, const void* given, size_t bytes_min);

template <class Options>
Status read_options(Options& known, const Options* given, size_t bytes_min = sizeof(Options)) {
  return copy_options(std::as_writable_bytes(std::span(&known, 1)), given, bytes_min);
}

// kInvalidArgument: null with a count, or more than 2^30.
Result<std::span<const Token>> read_tokens(const uint32_t* tokens, size_t count);

}  // namespace rhizome
