#include "telemetry/log.h"

#include <atomic>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "concurrency/mutex.h"

namespace rhizome {
namespace {

constexpr size_t kKeysMax = 1024;

std::atomic<LogLevel> level_now{LogLevel::kInfo};

// A logger of its own, not from spdlog's registry: the program that this is loaded into may use
// spdlog too. Never destroyed, since threads may log while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto* const logger = new spdlog::logger("rhizome", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    logger->set_pattern("%v");
    return logger;
  }();
  return *kLogger;
}

std::string_view head_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "rhizome: debug: ";
    case LogLevel::kWarning:
      return "rhizome: warning: ";
    case LogLevel::kError:
      return "rhizome: error: ";
    case LogLevel::kInfo:
    case LogLevel::kSilent:
      return "rhizome: ";
  }
  return "rhizome: ";
}

struct Keys {
  Mutex mutex;
  std::set<std::string, std::less<>> seen GUARDED_BY(mutex);
};

Keys& keys() {
  static Keys* const kKeys = new Keys;
  return *kKeys;
}

}  // namespace

void set_log_level(LogLevel level) {
  level_now.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::kSilent && level >= level_now.load(std::memory_order_relaxed);
}

void log_formatted(LogLevel level, fmt::string_view format, fmt::format_args arguments) noexcept {
  try {
    fmt::memory_buffer line;
    const std::string_view head = head_of(level);
    line.append(head.data(), head.data() + head.size());
    fmt::vformat_to(std::back_inserter(line), format, arguments);
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    logger().log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    // No memory for a line of text: what the program does matters more than what it says.
    return;
  }
}

bool log_first_time(std::string_view key) noexcept {
  try {
    Keys& all = keys();
    const MutexLock lock(all.mutex);
    if (all.seen.size() >= kKeysMax || all.seen.contains(key)) return false;
    all.seen.emplace(key);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace rhizome
