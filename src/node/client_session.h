// What a node keeps of one client: its socket, its lease and notice pages, its staging memory, and the answers to its
// frames.
//
// States: new (before hello) -> welcomed -> over. A session that is over is dropped by the node.
//
// Thread-safety: belongs to the node's thread; its commit ring has one of its own, which comes to commit() and is gone
// before anything of the session is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "attach/frame.h"
#include "attach/lease_page.h"
#include "attach/notice_page.h"
#include "attach/staging.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/local_socket.h"
#include "machine/mapping.h"
#include "machine/process_watch.h"
#include "node/commit_ring.h"
#include "node/contexts.h"
#include "node/flights.h"
#include "node/node_readers.h"
#include "store/store.h"
#include "telemetry/counters.h"

namespace rhizome {

// What all sessions of one tenant have in common, and nobody else reaches.
struct NodeDomain {
  Store& store;
  NodeReaders& readers;
  Counters& counters;
  uint64_t incarnation = 0;
  uint64_t budget_bytes = 0;
  bool comes_back = false;
  uint64_t staging_bytes_max = 0;
  uint64_t pinned_bytes_max = 0;
  uint64_t pinned_grace_ns = 0;
  uint64_t hello_wait_ns = 0;
  bool takes_commits_by_ring = true;
  std::string tenant;
  // Whoever commits shows the blocks and then takes the lock; whoever looks before he waits does so with the lock.
  Mutex flights_mutex = {};
  Flights flights GUARDED_BY(flights_mutex){store.block_tokens()};
  Contexts contexts = Contexts();  // the node's thread's
};
using NodeDomains = std::vector<std::unique_ptr<NodeDomain>>;

class ClientSession {
 public:
  // `domains` outlive the session. `on_broken` is called from another thread when has_broken_ring() has changed.
  ClientSession(const NodeDomains& domains, LocalSocket socket, ProcessWatch watch, uint64_t number,
                std::function<void()> on_broken);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  int socket_descriptor() const { return socket_.descriptor(); }
  int watch_descriptor() const { return watch_.descriptor(); }

  // Answers one message, if there is one. An error: the session is over, and why.
  Status serve_one();
  // The client has written into its commit ring what cannot be: the session is over.
  bool has_broken_ring() const { return ring_ != nullptr && ring_->is_broken(); }

  // client_quota.cc
  // Now and then: asks the client to unmap what has gone, and looks at what it keeps from going. An error: it has kept
  // more than it may for too long, and has been told (kResourceExhausted), or has not said hello in time
  // (kDeadlineExceeded); the session is over.
  Status check_quota(uint64_t now_ns);
  // Of chunks that are gone but for the client's mapping, when that was last looked at.
  uint64_t retired_bytes() const { return retired_bytes_; }

 private:
  // Chunks that are gone but for the client's mapping: it has not said yet that it heeded `generation`.
  struct Retired {
    uint64_t bytes = 0;
    uint32_t generation = 0;
  };
  // A reply, and what goes with it.
  struct Answer {
    AnyFrame frame;
    std::vector<int> descriptors = {};
    Mapping memory = {};  // of one of them, until it is sent
  };

  // False: it is a frame that takes an answer.
  bool take_unanswered(const AnyFrame& frame);
  Result<Answer> answer(const AnyFrame& frame, std::vector<Descriptor> descriptors);
  Result<Answer> on(const HelloFrame& hello, std::vector<Descriptor> descriptors);
  Result<Answer> on(const OpenFrame& open);
  Result<Answer> on(const AskRootFrame& ask);
  Result<Answer> on(const AskChunkFrame& ask);
  Result<Answer> on(const AskDirectoryFrame& ask);
  Result<Answer> on(const LoadFrame& load);
  Result<Answer> on(const AnnounceFrame& announce);
  Result<Answer> on(const WaitFrame& wait);
  Result<Answer> on(const ExplainFrame& explain);
  Result<Answer> on(const ReportFrame& report);
  Result<Answer> on(const ClearFrame& clear);
  // client_contexts.cc
  Result<Answer> on(const PublishFrame& publish);
  Result<Answer> on(const AdoptFrame& adopt);
  Result<Answer> on(const EndAdoptionFrame& end);
  Result<Answer> on(const UnpublishFrame& unpublish);
  // client_quota.cc: of what it keeps from going now, or what contexts of nobody's do.
  uint64_t kept_bytes(bool by_nobody) const;
  void ask_to_unmap();
  Status send(const AnyFrame& frame, uint64_t request, std::span<const int> descriptors);
  Result<Answer> opened(Root root);
  Result<Root> open_root(std::span<const std::byte> keyspace, std::span<const std::byte> geometry);
  void add_ring(Answer& welcome);
  // From the node's thread (no ring), or the ring's, which ends it between two blocks once it is over. The client keeps
  // its commits in order by coming on one of the two ways.
  Result<CommittedFrame> commit(const CommitFrame& commit, const CommitRing* ring) const;
  void tell_flights(Root root, std::span<const Token> tokens) const;
  // The client may write into staging memory at any time, so what is believed is a copy.
  Result<std::vector<Token>> copy_tokens(const StagedTokens& staged) const;
  // The same for blocks, of an opened keyspace, that the tokens end with.
  Result<std::vector<Token>> copy_tokens(const BlocksOfPrompt& blocks) const;

  const NodeDomains& domains_;
  NodeDomain* domain_ = nullptr;  // its tenant's, from hello on
  LocalSocket socket_;
  const ProcessWatch watch_;
  const uint64_t number_;
  const std::function<void()> on_broken_;
  bool is_welcomed_ = false;
  Mapping lease_memory_;
  Mapping notice_memory_;
  Mapping staging_memory_;
  std::vector<LeaseReader> lease_;    // one, once welcomed
  std::vector<NoticeWriter> notice_;  // the same
  StagingView staging_;
  std::unordered_map<uint32_t, uint64_t> handed_chunks_;  // bytes, by number
  std::vector<Retired> retired_;
  uint64_t retired_bytes_ = 0;
  uint32_t unmap_generation_ = 0;
  const uint64_t began_ns_;
  uint64_t over_quota_since_ns_ = 0;  // 0: it is not
  std::vector<std::byte> room_;       // for a message
  std::unique_ptr<CommitRing> ring_;  // null: the client has no staging memory, or there was none for a ring
};

}  // namespace rhizome
