// What the processes of `rhizome bench host` say to each other: orders and what came of them, over a socket.
//
// Thread-safety: a HostControl belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/host_work.h"
#include "contract/result.h"
#include "machine/clock.h"
#include "machine/local_socket.h"

namespace rhizome::bench {

enum class HostRole : uint32_t {
  kClient,  // host_part.cc
  kNode,    // host_node_part.cc
  kVictim,  // host_victim.cc
};

enum class HostVerb : uint32_t {
  kLookUp,        // `count` look-ups of random agents below `agents`
  kTouch,         // of the agents that follow the order
  kReadAll,       // agents from `first`, `count` of them
  kPoint,         // as kLookUp, to a pointer
  kStore,         // as kReadAll
  kHit,           // `count` hits on the agent `first`
  kFilteredHits,  // the same where any system call ends the process; then it ends. `agents` 1: with one in between
  kCopyFrom,      // `count` copies of `agents` bytes at `first` in the process that gives the orders
  kSocketLookUp,  // `count` look-ups as questions to who gives the orders
  kFlood,         // questions to the node for `count` milliseconds, as fast as they are answered
  kResident,      // the proportional set size of this process

  // Of a node, which answers with a HostUsage.
  kUsage,
  kClear,  // after it has forgotten all that nobody holds

  // Of a victim; `first` is a KilledVerb.
  kPrepare,  // all that comes before it
  kAct,
  kSettle,  // uses what it holds, and lets go
  kSpin,    // all three, again and again, for `count` milliseconds
};

struct HostOrder {
  HostVerb verb = HostVerb::kLookUp;
  uint32_t count = 0;
  uint64_t first = 0;
  uint64_t agents = 0;
  uint64_t seed = 0;
};

// What a node has, and what is held of it.
struct HostUsage {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t clients = 0;
  uint64_t descriptors = 0;  // open
  // Pinned, reserved, doomed or withheld, and by how much what is counted differs from what is there.
  uint64_t held = 0;
};

// How a part begins.
struct HostBeginning {
  HostRole role = HostRole::kClient;
  HostShape shape;
  uint64_t memory_bytes = 0;   // of a node
  uint64_t tier_bytes = 0;     // below its memory
  uint64_t staging_bytes = 0;  // of a client; 0: as usual
  uint64_t seed = 0;
  bool has_keeper = false;  // of a node
  std::array<char, 128> node_socket{};
};

inline constexpr uint64_t kHostPatienceNs = 30'000'000'000;

class HostControl {
 public:
  explicit HostControl(LocalSocket socket) : socket_(std::move(socket)), room_(kMessageBytesMax) {}

  // kUnavailable: the other side has ended. kDeadlineExceeded: it says nothing.
  Result<std::span<const std::byte>> receive(uint64_t patience_ns = kHostPatienceNs) {
    const Result<ReceivedMessage> message = socket_.receive(room_, monotonic_now_ns() + patience_ns);
    if (!message) return fail(message.error());
    if (message->has_ended) return fail(Code::kUnavailable, "the other process has ended");
    return std::span<const std::byte>(room_).first(message->bytes);
  }
  template <class Plain>
  Result<Plain> receive_plain(uint64_t patience_ns = kHostPatienceNs) {
    static_assert(std::is_trivially_copyable_v<Plain>);
    const auto message = receive(patience_ns);
    if (!message) return fail(message.error());
    Plain plain;
    if (message->size() < sizeof plain) return fail(Code::kDataLoss, "a message that is too short");
    std::memcpy(&plain, message->data(), sizeof plain);
    return plain;
  }
  Status send(std::span<const std::byte> message) {
    return socket_.send(message, monotonic_now_ns() + kHostPatienceNs);
  }
  template <class Plain>
  Status send_plain(const Plain& plain) {
    static_assert(std::is_trivially_copyable_v<Plain>);
    return send(std::as_bytes(std::span(&plain, 1)));
  }
  void close() { socket_.close(); }

 private:
  LocalSocket socket_;
  std::vector<std::byte> room_;
};

// What each role does until the other side has ended; the exit status.
int run_client_part(HostControl& control, const HostBeginning& beginning);
// Where the keeper of a node listens.
std::string keeper_socket(const std::string& node_socket);
int run_node_part(HostControl& control, const HostBeginning& beginning);
int run_victim_part(HostControl& control, const HostBeginning& beginning);

}  // namespace rhizome::bench
