// Counters that one process writes and another reads: a page of 64-bit atomics in a shared mapping.
// An engine's process adds, its parent prints the summary and serves /metrics. The table of what
// exists is telemetry/counters.def; names, labels and help texts come from there.
//
// Thread-safety: everything here may be called from any thread and any process that maps the page.
// Plain relaxed adds: each counter is right by itself; no order between counters is promised.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "contract/result.h"
#include "machine/mapping.h"

namespace rhizome {

enum class Counter : uint32_t {
#define RHIZOME_COUNTER(id, kind, name, labels, help) id,
#include "telemetry/counters.def"
#undef RHIZOME_COUNTER
  kEnd
};
inline constexpr uint32_t kCountersCount = static_cast<uint32_t>(Counter::kEnd);

enum class CounterKind : uint8_t {
  kTotal,        // a count that only grows
  kGauge,        // set to what is true now
  kNanoseconds,  // a time that only grows; exported in seconds
};

struct CounterInfo {
  CounterKind kind;
  std::string_view name;    // metric name, without labels
  std::string_view labels;  // `a="b",c="d"` or empty
  std::string_view help;
};

const CounterInfo& counter_info(Counter counter);

class Counters {
 public:
  // A page of this process alone.
  static std::unique_ptr<Counters> local();
  // Creates the file (mode 0600; it must not exist) and maps it. kAlreadyExists, kPermissionDenied, ...
  static Result<std::unique_ptr<Counters>> create(const std::string& path);
  // Maps a file that create() made. kNotFound; kFailedPrecondition when it is of another version.
  static Result<std::unique_ptr<Counters>> attach(const std::string& path);

  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  void add(Counter counter, uint64_t value = 1) {
    values_[static_cast<uint32_t>(counter)].fetch_add(value, std::memory_order_relaxed);
  }
  void sub(Counter counter, uint64_t value = 1) {
    values_[static_cast<uint32_t>(counter)].fetch_sub(value, std::memory_order_relaxed);
  }
  void set(Counter counter, uint64_t value) {
    values_[static_cast<uint32_t>(counter)].store(value, std::memory_order_relaxed);
  }
  uint64_t get(Counter counter) const {
    return values_[static_cast<uint32_t>(counter)].load(std::memory_order_relaxed);
  }

 private:
  struct Page;
  explicit Counters(Mapping mapping);
  static std::unique_ptr<Counters> make(Mapping mapping);

  Mapping mapping_;  // a Page: magic, version and count, then the values
  std::atomic<uint64_t>* values_;
};

}  // namespace rhizome
