#include "bench/host_victim.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "bench/host_control.h"
#include "bench/host_work.h"
#include "bench/token_source.h"
#include "contract/check.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "telemetry/counters.h"
#include "telemetry/log.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kAgents = 48;
constexpr uint64_t kAttachPatienceNs = 20'000'000'000;
constexpr uint64_t kAttachAgainNs = 2'000'000;
constexpr uint64_t kReplyWaitNs = 5'000'000'000;
constexpr uint64_t kContextNs = 200'000'000;

class Victim {
 public:
  explicit Victim(const HostBeginning& beginning)
      : socket_(beginning.node_socket.data()),
        staging_bytes_(beginning.staging_bytes),
        prompts_(beginning.shape),
        random_(beginning.seed) {}

  // False: there is no node.
  bool attach() {
    const uint64_t until = monotonic_now_ns() + kAttachPatienceNs;
    do {
      auto client = make_attached_client(
          {.socket_path = socket_, .staging_bytes = staging_bytes_, .reply_wait_ns = kReplyWaitNs}, *counters_);
      if (client) {
        client_ = std::move(*client);
        if (open()) return true;
        client_.reset();
      }
      pause_thread(kAttachAgainNs);
    } while (monotonic_now_ns() < until);
    return false;
  }

  bool prepare(KilledVerb verb) {
    agent_ = random_.below(kAgents);
    handle_ = {};  // of another agent
    if (client_ == nullptr && !attach()) return false;
    switch (verb) {
      case KilledVerb::kAttach:
        detach();
        break;
      case KilledVerb::kPromote:
      case KilledVerb::kLoad:
      case KilledVerb::kRead:
      case KilledVerb::kRelease:
        look_up();
        break;
      case KilledVerb::kCommit:
      case KilledVerb::kCommitLater:
      case KilledVerb::kAbort:
        reserve();
        break;
      case KilledVerb::kPublish:
        store();
        break;
      case KilledVerb::kAdopt:
        store();
        publish();
        break;
      default:
        break;
    }
    return true;
  }

  bool act(KilledVerb verb) {
    switch (verb) {
      case KilledVerb::kAttach:
        return attach();
      case KilledVerb::kOpen:
        open();
        break;
      case KilledVerb::kLookup:
        look_up();
        break;
      case KilledVerb::kPeek:
        static_cast<void>(client_->peek(keyspace_, prompts_.of(agent_)));
        break;
      case KilledVerb::kPromote:
        static_cast<void>(client_->promote(hit_, prompts_.of(agent_), 0, hit_.blocks_count()));
        break;
      case KilledVerb::kLoad:
        static_cast<void>(client_->load(hit_, prompts_.of(agent_), 0, hit_.blocks_count()));
        break;
      case KilledVerb::kRead:
        read();
        break;
      case KilledVerb::kRelease:
        hit_.release();
        break;
      case KilledVerb::kReserve:
        reserve();
        break;
      case KilledVerb::kCommit:
        done_ += client_->commit(std::move(draft_));
        break;
      case KilledVerb::kCommitLater:
        client_->commit_later(std::move(draft_));
        break;
      case KilledVerb::kAbort:
        draft_.abort();
        break;
      case KilledVerb::kDetach:
        detach();
        break;
      case KilledVerb::kPublish:
        publish();
        break;
      case KilledVerb::kAdopt:
        adopt();
        break;
    }
    return true;
  }

  // Uses what is held as an engine would, and lets go of it.
  bool settle() {
    if (client_ == nullptr) return attach();
    done_ += client_->commit(std::move(draft_));
    done_ += client_->settle().blocks_count;
    read();
    hit_.release();
    // And as the next prompt would come.
    look_up();
    read();
    hit_.release();
    store();
    adopt();
    read();
    hit_.release();
    return true;
  }

  bool spin(KilledVerb verb, uint64_t until_ns) {
    do {
      if (!prepare(verb) || !act(verb) || !settle()) return false;
    } while (monotonic_now_ns() < until_ns);
    return true;
  }

  HostTally tally() const { return {.done = done_, .wrong = wrong_}; }

 private:
  // A hit must not outlive its client, even one that holds nothing.
  void detach() {
    hit_ = Hit();
    client_.reset();
  }
  bool open() {
    const Result<KeyspaceId> keyspace = client_->open(bench_keyspace(), prompts_.shape().geometry());
    if (keyspace) keyspace_ = *keyspace;
    return keyspace.has_value();
  }
  void look_up() { client_->lookup(keyspace_, prompts_.of(agent_), hit_); }
  void read() {
    const auto prompt = prompts_.of(agent_);
    for (uint32_t block = 0; block < hit_.blocks_count(); ++block) {
      const auto bytes = client_->read(hit_, prompt, block);
      if (!bytes) {
        // It may be gone; wrong is what says that it is right and is not, and what was right and does not verify.
        wrong_ += bytes.error().code == Code::kDataLoss;
        return;
      }
      ++done_;
      wrong_ += !prompts_.payload_matches(*bytes, agent_, block);
    }
  }
  void reserve() {
    Result<Draft> draft = client_->reserve(keyspace_, prompts_.of(agent_), 0);
    if (!draft) return;
    for (uint32_t i = 0; i < draft->blocks_count(); ++i)
      prompts_.fill_payload(draft->payload(i), agent_, draft->first_block() + i);
    draft_ = std::move(*draft);
  }

  void store() {
    reserve();
    done_ += client_->commit(std::move(draft_));
  }
  // One goes with this process, the other one with its time.
  void publish() {
    for (const bool outlives : {false, true}) {
      const auto handle =
          client_->publish(keyspace_, prompts_.of(agent_),
                           {.use = ContextUse::kMove, .lifetime_ns = kContextNs, .outlives_publisher = outlives});
      if (handle) handle_ = *handle;
    }
  }
  void adopt() {
    Result<Context> context = client_->adopt(handle_);
    if (!context) return;
    const auto prompt = prompts_.of(agent_);
    wrong_ += !std::ranges::equal(context->tokens, prompt);
    hit_ = std::move(context->hit);
  }

  const std::string socket_;
  const uint64_t staging_bytes_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  HostPrompts prompts_;
  SeededNumbers random_;
  std::unique_ptr<Client> client_;
  KeyspaceId keyspace_;
  uint64_t agent_ = 0;
  ContextHandle handle_;
  Hit hit_;      // goes before the client
  Draft draft_;  // the same
  uint64_t done_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace

std::string_view name_of(KilledVerb verb) {
  constexpr std::array<std::string_view, kKilledVerbsCount> kNames = {
      "attach",  "open",   "lookup",       "peek",  "promote", "load",    "read", "release",
      "reserve", "commit", "commit_later", "abort", "detach",  "publish", "adopt"};
  return kNames[static_cast<size_t>(verb)];
}

int run_victim_part(HostControl& control, const HostBeginning& beginning) {
  set_log_level(LogLevel::kSilent);
  Victim victim(beginning);
  if (!victim.attach()) return 1;
  if (const Status sent = control.send_plain(victim.tally()); !sent) return 1;
  for (;;) {
    const auto order = control.receive_plain<HostOrder>(UINT64_MAX / 4);
    if (!order) return order.error().code == Code::kUnavailable ? 0 : 1;
    const auto verb = static_cast<KilledVerb>(order->first);
    bool is_attached = true;
    if (order->verb == HostVerb::kPrepare) is_attached = victim.prepare(verb);
    if (order->verb == HostVerb::kAct) is_attached = victim.act(verb);
    if (order->verb == HostVerb::kSettle) is_attached = victim.settle();
    if (order->verb == HostVerb::kSpin) {
      is_attached = victim.spin(verb, monotonic_now_ns() + uint64_t{order->count} * 1'000'000);
    }
    if (!is_attached) return 1;
    if (const Status sent = control.send_plain(victim.tally()); !sent) return 1;
  }
}

}  // namespace rhizome::bench
