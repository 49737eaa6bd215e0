// The frames that a node and its clients exchange on their socket, one a message: a head and a body.
//
// A head is 16 bytes, little endian: u32 kind, u32 bytes of the body, u64 request (a reply has that of its question; 0
// where none is awaited). A body is its fields in the order of visit(): integers little endian, texts and bytes behind
// a u32 of their length. Nothing else may follow. A change of any of this is another protocol version.
//
// Decoders are total: any bytes give a frame or an error, and a frame that was decoded encodes to the same bytes. They
// check the form; what the numbers refer to is checked by whoever acts on them.
//
// Thread-safety: plain values; functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "attach/context_handle.h"
#include "attach/frame_kind.h"
#include "block/reason.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr uint32_t kProtocolVersion = 3;
inline constexpr size_t kTenantBytesMax = 64;
inline constexpr size_t kKeyspaceBytesMax = 48 << 10;
inline constexpr size_t kGeometryBytesMax = 256;
inline constexpr size_t kReasonBytesMax = 256;
inline constexpr size_t kStatsBytesMax = 60 << 10;

// A keyspace that the node has opened. Number 0 is none; the generation tells it from an earlier one of that number.
struct KeyspaceNumber {
  uint32_t number = 0;
  uint32_t generation = 0;

  friend bool operator==(const KeyspaceNumber&, const KeyspaceNumber&) = default;
};

// Tokens, from position 0 of a prompt, in the client's staging memory.
struct StagedTokens {
  uint64_t offset = 0;
  uint32_t count = 0;

  friend bool operator==(const StagedTokens&, const StagedTokens&) = default;
};

// The first frame of a client. With its staging memory, when it has some.
struct HelloFrame {
  static constexpr FrameKind kKind = FrameKind::kHello;
  uint32_t protocol_version = kProtocolVersion;
  uint32_t block_tokens = 0;   // that it wants; 0: as the node has them
  uint64_t staging_bytes = 0;  // of the memory that comes with it; 0: none
  std::string tenant = {};

  friend bool operator==(const HelloFrame&, const HelloFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.protocol_version);
    fields.number(self.block_tokens);
    fields.number(self.staging_bytes);
    fields.text(self.tenant, kTenantBytesMax);
  }
};

// With the client's lease page and notice page, and the memory of its rings when it has some.
struct WelcomeFrame {
  static constexpr FrameKind kKind = FrameKind::kWelcome;
  uint32_t protocol_version = kProtocolVersion;
  uint32_t block_tokens = 0;
  uint64_t incarnation = 0;
  uint64_t session = 0;
  uint64_t budget_bytes = 0;  // that the node may use for slots
  uint32_t ring_records = 0;  // capacity of each ring; 0: none
  uint32_t comes_back = 0;    // 1: when it ends its place is kept for it; 0: whoever likes takes it

  friend bool operator==(const WelcomeFrame&, const WelcomeFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.protocol_version);
    fields.number(self.block_tokens);
    fields.number(self.incarnation);
    fields.number(self.session);
    fields.number(self.budget_bytes);
    fields.number(self.ring_records);
    fields.number(self.comes_back);
  }
};

struct OpenFrame {
  static constexpr FrameKind kKind = FrameKind::kOpen;
  std::vector<std::byte> keyspace = {};  // its canonical encoding
  std::vector<std::byte> geometry = {};  // of its blocks, as the layer above encodes it

  friend bool operator==(const OpenFrame&, const OpenFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.text(self.keyspace, kKeyspaceBytesMax);
    fields.text(self.geometry, kGeometryBytesMax);
  }
};

struct OpenedFrame {
  static constexpr FrameKind kKind = FrameKind::kOpened;
  KeyspaceNumber keyspace = {};
  uint32_t root_run = 0;      // where its look-ups begin in the index
  uint32_t root_version = 0;  // as long as the run has it
  uint64_t slot_bytes = 0;

  friend bool operator==(const OpenedFrame&, const OpenedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.keyspace(self.keyspace);
    fields.number(self.root_run);
    fields.number(self.root_version);
    fields.number(self.slot_bytes);
  }
};

// Answered as OpenFrame: the root has changed.
struct AskRootFrame {
  static constexpr FrameKind kKind = FrameKind::kAskRoot;
  KeyspaceNumber keyspace = {};

  friend bool operator==(const AskRootFrame&, const AskRootFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.keyspace(self.keyspace);
  }
};

struct AskChunkFrame {
  static constexpr FrameKind kKind = FrameKind::kAskChunk;
  uint32_t number = 0;

  friend bool operator==(const AskChunkFrame&, const AskChunkFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.number);
  }
};

// With the chunk's memory.
struct ChunkFrame {
  static constexpr FrameKind kKind = FrameKind::kChunk;
  uint32_t number = 0;
  uint32_t generation = 0;
  uint64_t bytes = 0;

  friend bool operator==(const ChunkFrame&, const ChunkFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.number);
    fields.number(self.generation);
    fields.number(self.bytes);
  }
};

// Asks for memory of the index by its number: its arena, its table, what says where blocks are.
struct AskDirectoryFrame {
  static constexpr FrameKind kKind = FrameKind::kAskDirectory;
  uint32_t number = 0;

  friend bool operator==(const AskDirectoryFrame&, const AskDirectoryFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.number);
  }
};

// With that memory.
struct DirectoryFrame {
  static constexpr FrameKind kKind = FrameKind::kDirectory;
  uint32_t number = 0;
  uint32_t generation = 0;
  uint64_t bytes = 0;
  uint64_t entries_count = 0;

  friend bool operator==(const DirectoryFrame&, const DirectoryFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.number);
    fields.number(self.generation);
    fields.number(self.bytes);
    fields.number(self.entries_count);
  }
};

// Blocks that were written into staging memory, one payload behind the other.
struct CommitFrame {
  static constexpr FrameKind kKind = FrameKind::kCommit;
  KeyspaceNumber keyspace = {};
  StagedTokens tokens = {};
  uint32_t first_block = 0;
  uint32_t blocks_count = 0;
  uint64_t payloads_offset = 0;

  friend bool operator==(const CommitFrame&, const CommitFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.keyspace(self.keyspace);
    fields.staged(self.tokens);
    fields.number(self.first_block);
    fields.number(self.blocks_count);
    fields.number(self.payloads_offset);
  }
};

struct CommittedFrame {
  static constexpr FrameKind kKind = FrameKind::kCommitted;
  uint32_t visible_count = 0;
  uint32_t stored_before_count = 0;

  friend bool operator==(const CommittedFrame&, const CommittedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.visible_count);
    fields.number(self.stored_before_count);
  }
};

// Blocks [first, end) of a prompt.
struct BlocksOfPrompt {
  KeyspaceNumber keyspace = {};
  StagedTokens tokens = {};
  uint32_t first = 0;
  uint32_t end = 0;

  friend bool operator==(const BlocksOfPrompt&, const BlocksOfPrompt&) = default;
};

// Brings them from the tiers into memory.
struct LoadFrame {
  static constexpr FrameKind kKind = FrameKind::kLoad;
  BlocksOfPrompt blocks = {};

  friend bool operator==(const LoadFrame&, const LoadFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.blocks(self.blocks);
  }
};

struct LoadingFrame {
  static constexpr FrameKind kKind = FrameKind::kLoading;
  uint32_t end = 0;          // of the part that it pays to wait for
  uint64_t deadline_ns = 0;  // on the monotonic clock: by then they are there, or do not come

  friend bool operator==(const LoadingFrame&, const LoadingFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.end);
    fields.number(self.deadline_ns);
  }
};

// The client is about to compute them. Its claim is over when nothing is heard of it for so long.
struct AnnounceFrame {
  static constexpr FrameKind kKind = FrameKind::kAnnounce;
  BlocksOfPrompt blocks = {};
  uint64_t patience_ns = 0;

  friend bool operator==(const AnnounceFrame&, const AnnounceFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.blocks(self.blocks);
    fields.number(self.patience_ns);
  }
};

// It is the one that does, up to `end`; the others wait for it until it withdraws, commits or ends.
struct ClaimedFrame {
  static constexpr FrameKind kKind = FrameKind::kClaimed;
  uint64_t claim = 0;  // 0: somebody else computes the first that is missing, up to `end`; end 0: none is missing
  uint32_t end = 0;

  friend bool operator==(const ClaimedFrame&, const ClaimedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.claim);
    fields.number(self.end);
  }
};

// Are there more than `blocks.first` of them? Until `deadline_ns`, on the monotonic clock, the client's notice page
// stirs when that may have changed.
struct WaitFrame {
  static constexpr FrameKind kKind = FrameKind::kWait;
  BlocksOfPrompt blocks = {};
  uint64_t deadline_ns = 0;

  friend bool operator==(const WaitFrame&, const WaitFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.blocks(self.blocks);
    fields.number(self.deadline_ns);
  }
};

// The numbers are part of the protocol.
enum class WaitOutcome : uint8_t {
  kMoreBlocks = 0,  // more are there than before
  kNobody = 1,      // nobody computes the next one (any more)
  kNotYet = 2,      // somebody does
};
inline constexpr int kWaitOutcomesCount = 3;

struct WaitedFrame {
  static constexpr FrameKind kKind = FrameKind::kWaited;
  uint32_t end = 0;  // of what is there now
  WaitOutcome why = WaitOutcome::kMoreBlocks;
  uint64_t until_ns = 0;  // kNotYet: on the monotonic clock; without progress until then the claim is over

  friend bool operator==(const WaitedFrame&, const WaitedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.end);
    fields.choice(self.why, kWaitOutcomesCount);
    fields.number(self.until_ns);
  }
};

// Gives a claim up; not answered.
struct WithdrawFrame {
  static constexpr FrameKind kKind = FrameKind::kWithdraw;
  uint64_t claim = 0;

  friend bool operator==(const WithdrawFrame&, const WithdrawFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.claim);
  }
};

// Why would a look-up of this prompt stop where it does?
struct ExplainFrame {
  static constexpr FrameKind kKind = FrameKind::kExplain;
  KeyspaceNumber keyspace = {};
  StagedTokens tokens = {};

  friend bool operator==(const ExplainFrame&, const ExplainFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.keyspace(self.keyspace);
    fields.staged(self.tokens);
  }
};

struct ExplainedFrame {
  static constexpr FrameKind kKind = FrameKind::kExplained;
  Reason reason = Reason::kFull;
  uint32_t blocks_count = 0;
  std::string text = {};

  friend bool operator==(const ExplainedFrame&, const ExplainedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.choice(self.reason, kReasonsCount);
    fields.number(self.blocks_count);
    fields.text(self.text, kReasonBytesMax);
  }
};

struct AskStatsFrame {
  static constexpr FrameKind kKind = FrameKind::kAskStats;

  friend bool operator==(const AskStatsFrame&, const AskStatsFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self&, Fields&) {}
};

struct StatsFrame {
  static constexpr FrameKind kKind = FrameKind::kStats;
  std::string text = {};

  friend bool operator==(const StatsFrame&, const StatsFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.text(self.text, kStatsBytesMax);
  }
};

// Forgets all blocks of a keyspace, or of all that the client may see (number 0).
struct ClearFrame {
  static constexpr FrameKind kKind = FrameKind::kClear;
  KeyspaceNumber keyspace = {};

  friend bool operator==(const ClearFrame&, const ClearFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.keyspace(self.keyspace);
  }
};

struct ClearedFrame {
  static constexpr FrameKind kKind = FrameKind::kCleared;
  uint64_t blocks_count = 0;

  friend bool operator==(const ClearedFrame&, const ClearedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.blocks_count);
  }
};

// The sender ends the session in good order; not answered.
struct GoodbyeFrame {
  static constexpr FrameKind kKind = FrameKind::kGoodbye;

  friend bool operator==(const GoodbyeFrame&, const GoodbyeFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self&, Fields&) {}
};

// In place of the reply.
struct ErrorFrame {
  static constexpr FrameKind kKind = FrameKind::kError;
  Code code = Code::kUnknown;
  std::string text = {};

  friend bool operator==(const ErrorFrame&, const ErrorFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.choice(self.code, static_cast<int>(Code::kUnauthenticated) + 1);
    fields.text(self.text, kReasonBytesMax);
  }
};

// The last of the blocks did not verify where the client has mapped it. The node looks for itself.
struct ReportFrame {
  static constexpr FrameKind kKind = FrameKind::kReport;
  BlocksOfPrompt blocks = {};

  friend bool operator==(const ReportFrame&, const ReportFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.blocks(self.blocks);
  }
};

struct ReportedFrame {
  static constexpr FrameKind kKind = FrameKind::kReported;
  uint32_t blocks_count = 0;  // of the prompt, that are stored now

  friend bool operator==(const ReportedFrame&, const ReportedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.blocks_count);
  }
};

// The client's engine has computed so many tokens of a prompt behind so many others; not answered.
struct ObserveFrame {
  static constexpr FrameKind kKind = FrameKind::kObserve;
  uint32_t tokens_count = 0;
  uint32_t before_count = 0;
  uint64_t duration_ns = 0;

  friend bool operator==(const ObserveFrame&, const ObserveFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.tokens_count);
    fields.number(self.before_count);
    fields.number(self.duration_ns);
  }
};

// Hands a context over: the node keeps the tokens and pins what is stored of them, until the terms end it.
struct PublishFrame {
  static constexpr FrameKind kKind = FrameKind::kPublish;
  std::vector<std::byte> keyspace = {};  // as in OpenFrame
  std::vector<std::byte> geometry = {};
  StagedTokens tokens = {};
  ContextTerms terms = {};

  friend bool operator==(const PublishFrame&, const PublishFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.text(self.keyspace, kKeyspaceBytesMax);
    fields.text(self.geometry, kGeometryBytesMax);
    fields.staged(self.tokens);
    fields.choice(self.terms.use, kContextUsesCount);
    fields.number(self.terms.lifetime_ns);
    fields.choice(self.terms.outlives_publisher, 2);
  }
};

struct PublishedFrame {
  static constexpr FrameKind kKind = FrameKind::kPublished;
  ContextHandle handle = {};

  friend bool operator==(const PublishedFrame&, const PublishedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.handle(self.handle);
  }
};

struct AdoptFrame {
  static constexpr FrameKind kKind = FrameKind::kAdopt;
  ContextHandle handle = {};

  friend bool operator==(const AdoptFrame&, const AdoptFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.handle(self.handle);
  }
};

// With memory that holds the tokens and nothing else. The node keeps its pins until the client ends the adoption, so
// that there is no moment in which nobody pins.
struct ContextFrame {
  static constexpr FrameKind kKind = FrameKind::kContext;
  uint64_t adoption = 0;
  std::vector<std::byte> keyspace = {};
  std::vector<std::byte> geometry = {};
  uint32_t tokens_count = 0;
  uint32_t blocks_count = 0;  // that the node pins

  friend bool operator==(const ContextFrame&, const ContextFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.adoption);
    fields.text(self.keyspace, kKeyspaceBytesMax);
    fields.text(self.geometry, kGeometryBytesMax);
    fields.number(self.tokens_count);
    fields.number(self.blocks_count);
  }
};

// The client pins by itself from now on, or wants it no more. Answered with ConfirmedFrame.
struct EndAdoptionFrame {
  static constexpr FrameKind kKind = FrameKind::kEndAdoption;
  uint64_t adoption = 0;
  bool keeps = false;

  friend bool operator==(const EndAdoptionFrame&, const EndAdoptionFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.number(self.adoption);
    fields.choice(self.keeps, 2);
  }
};

// Nobody adopts it any more. Answered with ConfirmedFrame.
struct UnpublishFrame {
  static constexpr FrameKind kKind = FrameKind::kUnpublish;
  ContextHandle handle = {};

  friend bool operator==(const UnpublishFrame&, const UnpublishFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self& self, Fields& fields) {
    fields.handle(self.handle);
  }
};

struct ConfirmedFrame {
  static constexpr FrameKind kKind = FrameKind::kConfirmed;

  friend bool operator==(const ConfirmedFrame&, const ConfirmedFrame&) = default;
  template <class Self, class Fields>
  static void visit(Self&, Fields&) {}
};

// In the order of their kinds.
using AnyFrame = std::variant<HelloFrame, WelcomeFrame, OpenFrame, OpenedFrame, AskRootFrame, AskChunkFrame, ChunkFrame,
                              AskDirectoryFrame, DirectoryFrame, CommitFrame, CommittedFrame, LoadFrame, LoadingFrame,
                              AnnounceFrame, ClaimedFrame, WaitFrame, WaitedFrame, WithdrawFrame, ExplainFrame,
                              ExplainedFrame, AskStatsFrame, StatsFrame, ClearFrame, ClearedFrame, GoodbyeFrame,
                              ErrorFrame, ReportFrame, ReportedFrame, ObserveFrame, PublishFrame, PublishedFrame,
                              AdoptFrame, ContextFrame, EndAdoptionFrame, UnpublishFrame, ConfirmedFrame>;
static_assert(std::variant_size_v<AnyFrame> == kFrameKindsCount);

// The message of a frame. kInvalidArgument: a text is longer than it may be.
Result<std::vector<std::byte>> encode_frame(const AnyFrame& frame, uint64_t request);

// kInvalidArgument: the message is no frame of its kind, or of no kind.
Result<AnyFrame> decode_frame(std::span<const std::byte> message);

// As decode_frame(), of a frame that must be a Frame: any other kind is kInvalidArgument as well, but an ErrorFrame is
// its own code with a reason that says no more than that the other side refused.
template <class Frame>
Result<Frame> decode_reply(std::span<const std::byte> message) {
  Result<AnyFrame> frame = decode_frame(message);
  if (!frame) return fail(frame.error());
  if (Frame* const wanted = std::get_if<Frame>(&*frame)) return std::move(*wanted);
  if (const ErrorFrame* const refusal = std::get_if<ErrorFrame>(&*frame)) {
    return fail(refusal->code == Code::kOk ? Code::kUnknown : refusal->code, "the other side refused");
  }
  return fail(Code::kInvalidArgument, "the reply is of another kind");
}

// Its reason is cut where it is longer than a frame takes.
ErrorFrame error_frame(const Error& error);

}  // namespace rhizome
