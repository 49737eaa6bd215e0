#include "cli/doctor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "machine/clock.h"
#include "machine/descriptor.h"
#include "machine/file_ring.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/local_socket.h"
#include "machine/mapping.h"
#include "machine/process_watch.h"
#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kSmallFileMax = 4096;
constexpr uint64_t kMapsMax = 16 << 20;
constexpr int kClockReads = 10'000;

std::string small_file(const std::string& path) {
  std::string text = read_text_file(path, kSmallFileMax).value_or(std::string());
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

Check check_memory() {
  return {"memory", Offer::kYes, format_bytes(total_memory_bytes()) + " for this process", ""};
}

Check check_io_uring() {
  Check check{"io_uring", Offer::kNo, "not allowed", "the disk tier reads and writes with a pool of threads"};
  if (FileRing::create({.kind = RingKind::kRegistered})) {
    check.offer = Offer::kYes;
    check.found = "with registered files and buffers";
  } else if (FileRing::create({.kind = RingKind::kPlain})) {
    check.offer = Offer::kLess;
    check.found = "without registered files and buffers";
    check.without = "each request of the disk tier costs the kernel a little more";
  }
  return check;
}

// Of a field of the mapping that holds `address`, in kB, as /proc/self/smaps says.
uint64_t smaps_kilobytes(const void* address, std::string_view field) {
  const std::string maps = read_text_file("/proc/self/smaps", kMapsMax).value_or(std::string());
  std::array<char, 24> begin{};
  std::snprintf(begin.data(), begin.size(), "%lx-", reinterpret_cast<unsigned long>(address));
  size_t at = maps.starts_with(begin.data()) ? 0 : maps.find("\n" + std::string(begin.data()));
  if (at == std::string::npos) return 0;
  at = maps.find("\n" + std::string(field) + ":", at + 1);
  if (at == std::string::npos) return 0;
  at = maps.find_first_of("0123456789", at);
  uint64_t kilobytes = 0;
  if (at != std::string::npos) std::from_chars(maps.data() + at, maps.data() + maps.size(), kilobytes);
  return kilobytes;
}

// Tried with memory as a node has it.
Check check_huge_pages() {
  Check check{"huge pages", Offer::kNo, "none in shared memory", "look-ups and copies miss the TLB more often"};
  const auto memory = Mapping::shareable(2 * Mapping::kHugePageBytes);
  if (!memory) return check;
  const void* const begin = memory->bytes().data();
  if (smaps_kilobytes(begin, "Shared_Hugetlb") + smaps_kilobytes(begin, "Private_Hugetlb") > 0) {
    check.offer = Offer::kYes;
    check.found = "from the kernel's pool";
  } else if (const uint64_t kilobytes = smaps_kilobytes(begin, "ShmemPmdMapped"); kilobytes > 0) {
    check.offer = Offer::kYes;
    check.found = "collapsed in shared memory (MADV_COLLAPSE)";
  }
  const std::string policy = small_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (!policy.empty()) check.found += "; shmem_enabled: " + policy;
  return check;
}

Check check_memlock() {
  Check check{"memlock limit", Offer::kNo, "", "io_uring registers fewer buffers before kernel 5.12"};
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return check;
  const bool is_enough = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (uint64_t{64} << 20);
  check.offer = is_enough ? Offer::kYes : Offer::kLess;
  check.found = limit.rlim_cur == RLIM_INFINITY ? "none" : format_bytes(limit.rlim_cur);
  return check;
}

Check check_open_files() {
  Check check{"open files limit", Offer::kNo, "", "a node takes fewer clients, and a large disk fewer segments"};
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return check;
  // A node takes as many as it may.
  check.offer = limit.rlim_max >= 4096 ? Offer::kYes : Offer::kLess;
  check.found = limit.rlim_max == RLIM_INFINITY ? "none" : std::to_string(limit.rlim_max);
  return check;
}

std::string listed(std::span<const std::pair<const char*, bool>> features, bool wanted) {
  std::string text;
  for (const auto& [name, is_there] : features) {
    if (is_there == wanted) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

Check check_processor() {
  const std::array<std::pair<const char*, bool>, 8> features = {{
      {"AES", __builtin_cpu_supports("aes") != 0},
      {"VAES", __builtin_cpu_supports("vaes") != 0},
      {"AVX2", __builtin_cpu_supports("avx2") != 0},
      {"BMI2", __builtin_cpu_supports("bmi2") != 0},
      {"AVX-512F", __builtin_cpu_supports("avx512f") != 0},
      {"AVX-512BW", __builtin_cpu_supports("avx512bw") != 0},
      {"AVX-512VL", __builtin_cpu_supports("avx512vl") != 0},
      {"AVX-512VBMI2", __builtin_cpu_supports("avx512vbmi2") != 0},
  }};
  Check check{"processor", Offer::kYes, std::to_string(cpu_count()) + " CPUs with " + listed(features, true), ""};
  const std::string missing = listed(features, false);
  if (missing.empty()) return check;
  check.offer = Offer::kLess;
  check.found += "; without " + missing;
  check.without = "index, checksum, codec and copy take their next narrower variant";
  return check;
}

Check check_sockets() {
  Check check{"sockets and pidfd", Offer::kNo, "", "no memory is shared: each engine keeps its cache for itself"};
  const auto ends = LocalSocket::pair();
  if (!ends) {
    check.found = ends.error().reason;
    return check;
  }
  const auto watch = ProcessWatch::of_peer(ends->first);
  check.offer = watch ? Offer::kYes : Offer::kNo;
  check.found = watch ? "a node learns of the end of its clients" : watch.error().reason;
  return check;
}

Check check_sealing() {
  Check check{"memfd sealing", Offer::kNo, "", "no memory is shared: each engine keeps its cache for itself"};
  const auto memory = Mapping::shareable(Mapping::kHugePageBytes);
  if (!memory) {
    check.found = memory.error().reason;
    return check;
  }
  const Descriptor copy(::dup(memory->descriptor()));
  const auto mapped = Mapping::attach_shared(copy, memory->bytes().size(), Mapping::Access::kRead);
  check.offer = mapped ? Offer::kYes : Offer::kNo;
  check.found = mapped ? "memory that nobody else can shrink or write to" : mapped.error().reason;
  return check;
}

Check check_clock() {
  const std::string source = small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const uint64_t begin_ns = monotonic_now_ns();
  uint64_t last_ns = begin_ns;
  for (int i = 0; i < kClockReads; ++i)
    last_ns = std::max(last_ns, monotonic_now_ns());
  const uint64_t each_ns = (last_ns - begin_ns) / kClockReads;
  Check check{"clock", Offer::kYes, (source.empty() ? "" : source + ", ") + std::to_string(each_ns) + " ns to read",
              ""};
  if (each_ns > 200) {
    check.offer = Offer::kLess;
    check.without = "reading the time is a system call: every look-up takes a little longer";
  }
  return check;
}

std::string_view offer_word(Offer offer) {
  switch (offer) {
    case Offer::kYes:
      return "yes";
    case Offer::kLess:
      return "less";
    case Offer::kNo:
      return "no";
  }
  return "no";
}

}  // namespace

std::vector<Check> check_machine() {
  return {check_memory(),  check_huge_pages(), check_sealing(),   check_sockets(), check_io_uring(),
          check_memlock(), check_open_files(), check_processor(), check_clock()};
}

std::string doctor_text(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    std::array<char, 40> head{};
    std::snprintf(head.data(), head.size(), "%-18s %-5s ", std::string(check.name).c_str(),
                  std::string(offer_word(check.offer)).c_str());
    text += head.data() + check.found + "\n";
    if (check.offer != Offer::kYes) text += std::string(25, ' ') + "then: " + std::string(check.without) + "\n";
  }
  return text;
}

std::string doctor_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Check& check : checks) {
    json[std::string(check.name)] = {{"offered", offer_word(check.offer)}, {"found", check.found}};
    if (check.offer != Offer::kYes) json[std::string(check.name)]["then"] = check.without;
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int doctor_main(const std::vector<std::string>& arguments) {
  bool is_json = false;
  for (const std::string& word : arguments) {
    if (word == "--help" || word == "-h") {
      std::fputs(command_help(*find_command("doctor")).c_str(), stdout);
      return kDone;
    }
    if (word != "--json") {
      log_error("doctor takes --json and nothing else; see rhizome doctor --help");
      return kWrongCall;
    }
    is_json = true;
  }
  const std::vector<Check> checks = check_machine();
  std::fputs((is_json ? doctor_json(checks) : doctor_text(checks)).c_str(), stdout);
  return kDone;
}

}  // namespace rhizome
