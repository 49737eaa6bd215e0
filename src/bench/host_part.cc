#include "bench/host_part.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench/ticks.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "slab/block_copy.h"
#include "telemetry/counters.h"
#include "telemetry/log.h"

namespace rhizome::bench {
namespace {

constexpr const char* kControlVariable = "RHIZOME_BENCH_HOST_CONTROL";
constexpr uint64_t kOrderPatienceNs = 300'000'000'000;
constexpr int kHitsWereNotFull = 3;
// So many of 32 bits fit a message beside its head.
constexpr size_t kAgentsMax = 8192;

// From here on any system call but the end of the process ends it by SIGSYS.
bool forbid_system_calls() {
  std::array<sock_filter, 5> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  }};
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

class Part {
 public:
  Part(HostControl& control, HostUser user, const HostShape& shape, std::string node_socket)
      : control_(control), user_(std::move(user)), shape_(shape), node_socket_(std::move(node_socket)) {}

  int run() {
    for (;;) {
      const auto message = control_.receive(kOrderPatienceNs);
      if (!message) return message.error().code == Code::kUnavailable ? 0 : 1;
      HostOrder order;
      if (message->size() < sizeof order) return 1;
      std::memcpy(&order, message->data(), sizeof order);
      std::vector<uint32_t> agents((message->size() - sizeof order) / sizeof(uint32_t));
      if (!agents.empty()) {
        std::memcpy(agents.data(), message->data() + sizeof order, agents.size() * sizeof(uint32_t));
      }
      const Result<HostTally> tally = obey(order, agents);
      if (!tally) return 1;
      if (const Status sent = control_.send_plain(*tally); !sent) return 1;
    }
  }

 private:
  Result<HostTally> obey(const HostOrder& order, std::span<const uint32_t> agents) {
    switch (order.verb) {
      case HostVerb::kLookUp:
        return user_.look_up(order.count, order.agents, order.seed);
      case HostVerb::kTouch:
        return user_.touch(agents);
      case HostVerb::kReadAll:
        return user_.read_all(order.first, order.count);
      case HostVerb::kPoint:
        return user_.point(order.count, order.agents, order.seed);
      case HostVerb::kStore:
        return user_.store(order.first, order.count);
      case HostVerb::kHit:
        return hits(order);
      case HostVerb::kFilteredHits:
        filtered_hits(order);
      case HostVerb::kCopyFrom:
        return copies(order);
      case HostVerb::kSocketLookUp:
        return socket_look_ups(order);
      case HostVerb::kFlood:
        return flood(order);
      case HostVerb::kResident:
        return HostTally{.bytes = proportional_set_bytes(own_pid())};
      default:
        break;
    }
    return fail(Code::kInvalidArgument, "no such order");
  }

  HostTally hits(const HostOrder& order) {
    const uint64_t before = copied_block_bytes();
    HostTally tally = user_.hit(order.count, order.first);
    tally.bytes = copied_block_bytes() - before;
    return tally;
  }

  [[noreturn]] void filtered_hits(const HostOrder& order) {
    // What is mapped at first use is, and what is found a first time is.
    static_cast<void>(user_.hit(16, order.first));
    if (!forbid_system_calls()) ::_exit(1);
    if (order.agents == 1) static_cast<void>(::getppid());
    const HostTally tally = user_.hit(order.count, order.first);
    ::_exit(tally.done == order.count && tally.wrong == 0 ? 0 : kHitsWereNotFull);
  }

  static Result<HostTally> copies(const HostOrder& order) {
    std::vector<std::byte> room(order.agents);
    std::vector<uint64_t> ticks;
    HostTally tally;
    for (uint32_t i = 0; i < order.count; ++i) {
      const iovec to{.iov_base = room.data(), .iov_len = room.size()};
      // Another one each time, as look-ups are of another agent each time.
      // NOLINTNEXTLINE(performance-no-int-to-ptr): of the other process
      const iovec from{.iov_base = reinterpret_cast<void*>(order.first + (i % order.seed) * room.size()),
                       .iov_len = room.size()};
      const uint64_t start = ticks_now();
      const ssize_t copied = ::process_vm_readv(::getppid(), &to, 1, &from, 1, 0);
      ticks.push_back(ticks_now() - start);
      if (copied != static_cast<ssize_t>(room.size())) return fail(Code::kUnavailable, "process_vm_readv is refused");
      ++tally.done;
    }
    put_times(ticks, tally);
    return tally;
  }

  Result<HostTally> socket_look_ups(const HostOrder& order) {
    SeededNumbers random(order.seed);
    std::vector<uint64_t> ticks;
    HostTally tally;
    for (uint32_t i = 0; i < order.count; ++i) {
      const std::span<const std::byte> question = std::as_bytes(user_.prompts().of(random.below(order.agents)));
      const uint64_t start = ticks_now();
      if (const Status sent = control_.send(question); !sent) return fail(sent.error());
      const auto reply = control_.receive();
      ticks.push_back(ticks_now() - start);
      if (!reply) return fail(reply.error());
      tally.done += reply->size() == shape_.prompt_blocks() * sizeof(uint32_t);
    }
    put_times(ticks, tally);
    return tally;
  }

  // A second session, which asks for what takes the node most time for the least of its own.
  Result<HostTally> flood(const HostOrder& order) const {
    const auto counters = Counters::local();
    auto flooding = make_attached_client({.socket_path = node_socket_, .staging_bytes = 1 << 20}, *counters);
    if (!flooding) return fail(flooding.error());
    Result<HostUser> user = HostUser::open(**flooding, shape_);
    if (!user) return fail(user.error());
    HostTally tally;
    const uint64_t until = monotonic_now_ns() + uint64_t{order.count} * 1'000'000;
    for (uint64_t agent = order.first; monotonic_now_ns() < until; ++agent) {
      static_cast<void>(user->store(agent, 1));
      static_cast<void>((*flooding)->open(bench_keyspace(), shape_.geometry()));
      ++tally.done;
    }
    return tally;
  }

  HostControl& control_;
  HostUser user_;
  const HostShape shape_;
  const std::string node_socket_;
};

}  // namespace

bool is_host_part() {
  return std::getenv(kControlVariable) != nullptr;
}

int run_host_part() {
  set_log_level(LogLevel::kError);
  auto socket = LocalSocket::connect(std::getenv(kControlVariable), monotonic_now_ns() + kHostPatienceNs);
  if (!socket) return 1;
  HostControl control(std::move(*socket));
  const auto beginning = control.receive_plain<HostBeginning>();
  if (!beginning) return 1;
  switch (beginning->role) {
    case HostRole::kClient:
      return run_client_part(control, *beginning);
    case HostRole::kNode:
      return run_node_part(control, *beginning);
    case HostRole::kVictim:
      return run_victim_part(control, *beginning);
  }
  return 1;
}

int run_client_part(HostControl& control, const HostBeginning& beginning) {
  const auto counters = Counters::local();
  AttachedOptions options{.socket_path = beginning.node_socket.data()};
  if (beginning.staging_bytes > 0) options.staging_bytes = beginning.staging_bytes;
  auto client = make_attached_client(options, *counters);
  if (!client) {
    log_error("a process of the bench cannot attach: {}", client.error().reason);
    return 1;
  }
  Result<HostUser> user = HostUser::open(**client, beginning.shape);
  if (!user) return 1;
  // The first call measures how long a tick is.
  static_cast<void>(ns_per_tick());
  if (const Status sent = control.send_plain(HostTally()); !sent) return 1;
  Part part(control, std::move(*user), beginning.shape, options.socket_path);
  return part.run();
}

HostPart::~HostPart() {
  control_.close();
  child_.terminate(kHostPatienceNs);
}

Result<std::unique_ptr<HostPart>> HostPart::start(const std::string& program, const std::string& folder,
                                                  const std::string& node_socket, HostBeginning beginning) {
  static std::atomic<uint32_t> started{0};
  const std::string path = folder + "/part-" + std::to_string(started.fetch_add(1)) + ".sock";
  if (node_socket.size() >= beginning.node_socket.size()) return fail(Code::kInvalidArgument, "the path is too long");
  std::ranges::copy(node_socket, beginning.node_socket.begin());
  Result<LocalListener> listener = LocalListener::listen(path);
  if (!listener) return fail(listener.error());
  SpawnOptions options;
  options.environment = {{kControlVariable, path}};
  options.die_with_parent = true;
  options.death_signal = SIGKILL;
  Result<Child> child = Child::spawn({program, "bench", "host"}, options);
  if (!child) return fail(child.error());
  Result<LocalSocket> socket = listener->accept(monotonic_now_ns() + kHostPatienceNs);
  if (!socket) return fail(socket.error());
  auto part = std::unique_ptr<HostPart>(new HostPart(std::move(*child), std::move(*socket)));
  if (const Status sent = part->control_.send_plain(beginning); !sent) return fail(sent.error());
  const Result<HostTally> ready = part->hear();
  if (!ready) return fail(ready.error());
  return part;
}

Result<HostTally> HostPart::ask(const HostOrder& order, std::span<const uint32_t> agents) {
  if (const Status told = tell(order, agents); !told) return fail(told.error());
  return hear();
}

Result<HostUsage> HostPart::ask_node(HostVerb verb) {
  if (const Status told = tell({.verb = verb}); !told) return fail(told.error());
  return control_.receive_plain<HostUsage>();
}

Status HostPart::tell(const HostOrder& order, std::span<const uint32_t> agents) {
  if (agents.size() > kAgentsMax) return fail(Code::kInvalidArgument, "too many agents for one order");
  std::vector<std::byte> message(sizeof order + agents.size_bytes());
  std::memcpy(message.data(), &order, sizeof order);
  if (!agents.empty()) std::memcpy(message.data() + sizeof order, agents.data(), agents.size_bytes());
  return control_.send(message);
}

Result<HostTally> HostPart::hear(uint64_t patience_ns) {
  return control_.receive_plain<HostTally>(patience_ns);
}

Result<HostTally> HostPart::answer_look_ups(const HostOrder& order, Store& store, Root root) {
  if (const Status told = tell(order); !told) return fail(told.error());
  std::vector<Token> prompt;
  StoredPrefix prefix;
  for (uint32_t i = 0; i < order.count; ++i) {
    const auto message = control_.receive();
    if (!message) return fail(message.error());
    prompt.resize(message->size() / sizeof(Token));
    std::memcpy(prompt.data(), message->data(), prompt.size() * sizeof(Token));
    store.lookup(root, prompt, prefix);
    if (prefix.blocks() == 0) return fail(Code::kNotFound, "a look-up over the socket found nothing");
    if (const Status sent = control_.send(std::as_bytes(prefix.locations())); !sent) return fail(sent.error());
  }
  return hear();
}

uint64_t proportional_set_bytes(int pid) {
  constexpr std::string_view kLine = "\nPss:";
  const Result<std::string> text = read_text_file("/proc/" + std::to_string(pid) + "/smaps_rollup", 1 << 16);
  if (!text) return 0;
  size_t at = text->find(kLine);
  if (at == std::string::npos) return 0;
  at = text->find_first_of("0123456789", at);
  uint64_t kibibytes = 0;
  std::from_chars(text->data() + at, text->data() + text->size(), kibibytes);
  return kibibytes << 10;
}

}  // namespace rhizome::bench
