#include "telemetry/counters.h"

#include <array>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr CounterKind kTotal = CounterKind::kTotal;
constexpr CounterKind kGauge = CounterKind::kGauge;
constexpr CounterKind kNanoseconds = CounterKind::kNanoseconds;

constexpr std::array<CounterInfo, kCountersCount> kCounters = {{
#define RHIZOME_COUNTER(id, kind, name, labels, help) {kind, name, labels, help},
#include "telemetry/counters.def"
#undef RHIZOME_COUNTER
}};

constexpr uint64_t kMagic = 0x31'52'54'43'5a'48'52'00;  // "\0RHZCTR1"
constexpr uint32_t kVersion = 1;

}  // namespace

// The page as processes share it.
struct Counters::Page {
  std::atomic<uint64_t> magic;  // written last: a page without it is not ready
  uint32_t version;
  uint32_t count;
  uint64_t reserved[6];
  std::atomic<uint64_t> values[kCountersCount];
};

const CounterInfo& counter_info(Counter counter) {
  RHIZOME_CHECK(static_cast<uint32_t>(counter) < kCountersCount);
  return kCounters[static_cast<uint32_t>(counter)];
}

std::unique_ptr<Counters> Counters::local() {
  Result<Mapping> mapping = Mapping::anonymous(sizeof(Page));
  RHIZOME_CHECK(mapping.has_value());
  return make(std::move(*mapping));
}

Result<std::unique_ptr<Counters>> Counters::create(const std::string& path) {
  Result<Mapping> mapping = Mapping::create_file(path, sizeof(Page));
  if (!mapping) return fail(mapping.error());
  return make(std::move(*mapping));
}

Result<std::unique_ptr<Counters>> Counters::attach(const std::string& path) {
  Result<Mapping> mapping = Mapping::attach_file(path);
  if (!mapping) return fail(mapping.error());
  if (mapping->bytes().size() != sizeof(Page))
    return fail(Code::kFailedPrecondition, "not a counters page of this version");
  const Page* const page = reinterpret_cast<const Page*>(mapping->bytes().data());
  // Pairs with the release in make().
  if (page->magic.load(std::memory_order_acquire) != kMagic || page->version != kVersion ||
      page->count != kCountersCount) {
    return fail(Code::kFailedPrecondition, "not a counters page of this version");
  }
  return std::unique_ptr<Counters>(new Counters(std::move(*mapping)));
}

std::unique_ptr<Counters> Counters::make(Mapping mapping) {
  static_assert(std::is_standard_layout_v<Page>);
  static_assert(offsetof(Page, values) == 64, "the page's layout is shared between processes");
  static_assert(sizeof(Page) == 64 + 8 * kCountersCount);
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "a lock would be one process's own");
  Page* const page = new (mapping.bytes().data()) Page{};
  page->version = kVersion;
  page->count = kCountersCount;
  page->magic.store(kMagic, std::memory_order_release);  // pairs with the acquire in attach()
  return std::unique_ptr<Counters>(new Counters(std::move(mapping)));
}

Counters::Counters(Mapping mapping)
    : mapping_(std::move(mapping)), values_(reinterpret_cast<Page*>(mapping_.bytes().data())->values) {}

}  // namespace rhizome
