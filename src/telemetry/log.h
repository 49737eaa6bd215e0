// Log lines for the person who started the program: one line each, on stderr, "rhizome: ...".
//
// Thread-safety: may be called from any thread. Never throws, starts no thread, and does nothing
// before the first call: programs that never log pay nothing.
#pragma once

#include <cstdint>
#include <string_view>

#include <fmt/core.h>

namespace rhizome {

enum class LogLevel : uint8_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kSilent = 4 };

// Lines below the level are dropped before they are formatted. kInfo at first.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// Control characters in the line come out as '?': a line stays a line, whatever its arguments are.
void log_formatted(LogLevel level, fmt::string_view format, fmt::format_args arguments) noexcept;

// True the first time it is called with `key` in this process. Remembers at most 1,024 keys;
// what comes after those is never first.
bool log_first_time(std::string_view key) noexcept;

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (log_enabled(LogLevel::kDebug)) log_formatted(LogLevel::kDebug, format, fmt::make_format_args(args...));
}

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (log_enabled(LogLevel::kInfo)) log_formatted(LogLevel::kInfo, format, fmt::make_format_args(args...));
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (log_enabled(LogLevel::kWarning)) log_formatted(LogLevel::kWarning, format, fmt::make_format_args(args...));
}

template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (log_enabled(LogLevel::kError)) log_formatted(LogLevel::kError, format, fmt::make_format_args(args...));
}

// A warning that is written once for each `key`.
template <class... Args>
void log_once(std::string_view key, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (log_enabled(LogLevel::kWarning) && log_first_time(key)) {
    log_formatted(LogLevel::kWarning, format, fmt::make_format_args(args...));
  }
}

}  // namespace rhizome
