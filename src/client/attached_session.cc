#include "client/attached_session.h"

#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "attach/commit_rings.h"
#include "attach/shared_page.h"
#include "machine/clock.h"

namespace rhizome {

Result<std::unique_ptr<AttachedSession>> AttachedSession::attach(const AttachedOptions& options) {
  Result<LocalSocket> socket = LocalSocket::connect(options.socket_path, monotonic_now_ns() + options.reply_wait_ns);
  if (!socket) return fail(socket.error());
  const Result<PeerCredentials> peer = socket->peer_credentials();
  if (!peer) return fail(peer.error());
  if (peer->uid != ::geteuid()) return fail(Code::kPermissionDenied, "the node is another user's");
  auto session = std::unique_ptr<AttachedSession>(new AttachedSession(std::move(*socket), options.reply_wait_ns));
  const Status begun = session->begin(options);
  if (!begun) return fail(begun.error());
  return session;
}

AttachedSession::~AttachedSession() {
  const MutexLock lock(mutex_);
  if (!is_alive()) return;
  const Result<std::vector<std::byte>> goodbye = encode_frame(GoodbyeFrame(), 0);
  if (goodbye) static_cast<void>(socket_.send(*goodbye, 0));
}

Status AttachedSession::begin(const AttachedOptions& options) {
  Result<Mapping> staging = Mapping::shareable(options.staging_bytes, Mapping::Sharing::kWritable);
  if (!staging) return fail(staging.error());
  staging_memory_ = std::move(*staging);
  staging_ = std::make_unique<StagingArea>(staging_memory_.bytes());
  std::vector<Descriptor> descriptors;
  Result<WelcomeFrame> welcome = fail(Code::kUnknown, "");
  {
    const MutexLock lock(mutex_);
    const HelloFrame hello{.staging_bytes = options.staging_bytes, .tenant = options.tenant};
    const Result<std::vector<std::byte>> message = encode_frame(hello, ++last_request_);
    if (!message) return fail(message.error());
    const int staging_descriptor = staging_memory_.descriptor();
    const uint64_t deadline_ns = monotonic_now_ns() + reply_wait_ns_;
    const Status sent = socket_.send(*message, deadline_ns, std::span(&staging_descriptor, 1));
    if (!sent) return break_with(sent.error());
    Result<ReceivedMessage> received = socket_.receive(room_, deadline_ns);
    if (!received) return break_with(received.error());
    if (received->has_ended) return break_with({Code::kUnavailable, "the node has ended the session"});
    descriptors = std::move(received->descriptors);
    welcome = decode_reply<WelcomeFrame>(std::span<const std::byte>(room_.data(), received->bytes));
  }
  if (!welcome) return break_with(welcome.error());
  block_tokens_ = welcome->block_tokens;
  if (const Status mapped = map_pages(*welcome, descriptors); !mapped) return break_with(mapped.error());
  const Result<SharedMemory> index = directory(0);
  if (!index) return break_with(index.error());
  Result<std::unique_ptr<MappedCache>> cache = MappedCache::open(*index, *this);
  if (!cache) return break_with(cache.error());
  cache_ = std::move(*cache);
  if (cache_->index().block_tokens() != block_tokens_) {
    return break_with({Code::kInvalidArgument, "an index of another block size"});
  }
  return {};
}

// The pages, and the rings where the node has some.
Status AttachedSession::map_pages(const WelcomeFrame& welcome, std::span<const Descriptor> descriptors) {
  const bool has_rings = welcome.ring_records != 0;
  if (descriptors.size() != (has_rings ? 3 : 2)) return fail(Code::kInvalidArgument, "a welcome without its pages");
  Result<Mapping> lease = Mapping::attach_shared(descriptors[0], kSharedPageBytes, Mapping::Access::kWrite);
  if (!lease) return fail(lease.error());
  lease_memory_ = std::move(*lease);
  Result<Mapping> notice = Mapping::attach_shared(descriptors[1], kSharedPageBytes, Mapping::Access::kRead);
  if (!notice) return fail(notice.error());
  notice_memory_ = std::move(*notice);
  Result<LeaseWriter> writer = LeaseWriter::attach(lease_memory_.bytes());
  if (!writer) return fail(writer.error());
  lease_.push_back(std::move(*writer));
  const Result<NoticeReader> reader = NoticeReader::attach(notice_memory_.bytes());
  if (!reader) return fail(reader.error());
  notice_.push_back(*reader);
  if (!has_rings) return {};
  if (!is_ring_capacity(welcome.ring_records)) return fail(Code::kInvalidArgument, "rings of a length that cannot be");
  Result<Mapping> rings =
      Mapping::attach_shared(descriptors[2], commit_rings_bytes(welcome.ring_records), Mapping::Access::kWrite);
  if (!rings) return fail(rings.error());
  ring_memory_ = std::move(*rings);
  ring_records_ = welcome.ring_records;
  return {};
}

Status AttachedSession::exchange(const AnyFrame& question, std::vector<Descriptor>* descriptors) {
  if (!is_alive()) return fail(Code::kUnavailable, "the node is gone");
  const uint64_t request = ++last_request_;
  const Result<std::vector<std::byte>> message = encode_frame(question, request);
  if (!message) return fail(message.error());
  const uint64_t deadline_ns = monotonic_now_ns() + reply_wait_ns_;
  const Status sent = socket_.send(*message, deadline_ns);
  if (!sent) return break_with(sent.error());
  Result<ReceivedMessage> received = socket_.receive(room_, deadline_ns);
  // An answer that comes late would be taken for that of the next question.
  if (!received) return break_with(received.error());
  if (received->has_ended) return break_with({Code::kUnavailable, "the node is gone"});
  reply_ = std::span<const std::byte>(room_.data(), received->bytes);
  const Result<FrameHead> head = decode_frame_head(reply_);
  if (!head) return break_with(head.error());
  if (head->request != request) return break_with({Code::kInvalidArgument, "the reply to another question"});
  if (descriptors != nullptr) *descriptors = std::move(received->descriptors);
  return {};
}

Result<Descriptor> AttachedSession::duplicate_socket() {
  const MutexLock lock(mutex_);
  Descriptor copy(::fcntl(socket_.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return fail(Code::kResourceExhausted, "no descriptor left");
  return copy;
}

void AttachedSession::tell(const AnyFrame& frame, uint64_t wait_ns) {
  if (!is_alive()) return;
  const MutexLock lock(mutex_);
  const Result<std::vector<std::byte>> message = encode_frame(frame, 0);
  if (message) static_cast<void>(socket_.send(*message, monotonic_now_ns() + wait_ns));
}

void AttachedSession::unmap_what_is_gone() {
  const MutexLock lock(heed_mutex_);
  const uint32_t asked = notice_.front().unmap_generation();
  if (asked == heeded_.load(std::memory_order_relaxed)) return;
  if (unmapping_ == heeded_.load(std::memory_order_relaxed)) {
    // A node that is gone asks for nothing.
    if (!cache_->begin_unmap()) return heeded_.store(asked, std::memory_order_relaxed);
    unmapping_ = asked;
  }
  if (!cache_->end_unmap(lease_.front())) return;
  lease_.front().acknowledge_unmap(unmapping_);
  heeded_.store(unmapping_, std::memory_order_relaxed);
}

Result<SharedMemory> AttachedSession::directory(uint32_t number) {
  std::vector<Descriptor> descriptors;
  const Result<DirectoryFrame> reply = ask<DirectoryFrame>(AskDirectoryFrame{number}, &descriptors);
  if (!reply) return fail(reply.error());
  if (descriptors.size() != 1) return fail(Code::kInvalidArgument, "memory without its descriptor");
  return SharedMemory{std::move(descriptors.front()), reply->bytes};
}

// The index has number 0, the segments those behind it.
Result<SharedMemory> AttachedSession::directory_segment(uint32_t number) {
  return directory(number + 1);
}

Result<SharedMemory> AttachedSession::chunk(uint32_t number) {
  std::vector<Descriptor> descriptors;
  const Result<ChunkFrame> reply = ask<ChunkFrame>(AskChunkFrame{number}, &descriptors);
  if (!reply) return fail(reply.error());
  if (descriptors.size() != 1) return fail(Code::kInvalidArgument, "memory without its descriptor");
  return SharedMemory{std::move(descriptors.front()), reply->bytes};
}

}  // namespace rhizome
