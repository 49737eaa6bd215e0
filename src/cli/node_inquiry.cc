#include "cli/node_inquiry.h"

#include <span>
#include <utility>

#include <unistd.h>

#include "machine/clock.h"

namespace rhizome {
namespace {

constexpr uint64_t kPatienceNs = 2'000'000'000;

}  // namespace

NodeInquiry::NodeInquiry(LocalSocket socket, pid_t pid)
    : socket_(std::move(socket)), pid_(pid), room_(kMessageBytesMax) {}

tl::expected<NodeInquiry, NoTalk> NodeInquiry::open(const std::string& socket_path, const std::string& tenant,
                                                    uint32_t block_tokens) {
  Result<LocalSocket> socket = LocalSocket::connect(socket_path, monotonic_now_ns() + kPatienceNs);
  if (!socket) return tl::unexpected(NoTalk{socket.error().code, socket.error().reason, 0});
  const Result<PeerCredentials> peer = socket->peer_credentials();
  if (!peer) return tl::unexpected(NoTalk{peer.error().code, peer.error().reason, 0});
  if (peer->uid != ::geteuid()) {
    return tl::unexpected(NoTalk{Code::kUnauthenticated, "it is another user's", peer->pid});
  }
  NodeInquiry inquiry(std::move(*socket), peer->pid);
  const auto welcome = inquiry.ask<WelcomeFrame>(HelloFrame{.block_tokens = block_tokens, .tenant = tenant});
  if (!welcome) return tl::unexpected(welcome.error());
  inquiry.welcome_ = *welcome;
  return inquiry;
}

tl::unexpected<NoTalk> NodeInquiry::no_talk(const Error& error) const {
  return tl::unexpected(NoTalk{error.code, error.reason, pid_});
}

tl::expected<AnyFrame, NoTalk> NodeInquiry::exchange(const AnyFrame& question) {
  const Result<std::vector<std::byte>> message = encode_frame(question, ++last_request_);
  if (!message) return no_talk(message.error());
  const uint64_t deadline_ns = monotonic_now_ns() + kPatienceNs;
  const Status sent = socket_.send(*message, deadline_ns);
  if (!sent) return no_talk(sent.error());
  const Result<ReceivedMessage> received = socket_.receive(room_, deadline_ns);
  if (!received) {
    const bool is_late = received.error().code == Code::kDeadlineExceeded;
    return no_talk(is_late ? Error{Code::kDeadlineExceeded, "it does not answer"} : received.error());
  }
  if (received->has_ended) return no_talk({Code::kUnavailable, "it has ended the session"});
  const std::span<const std::byte> bytes(room_.data(), received->bytes);
  const Result<FrameHead> head = decode_frame_head(bytes);
  if (!head) return no_talk(head.error());
  if (head->request != last_request_) return no_talk({Code::kInvalidArgument, "it answers another question"});
  Result<AnyFrame> reply = decode_frame(bytes);
  if (!reply) return no_talk(reply.error());
  if (ErrorFrame* const refusal = std::get_if<ErrorFrame>(&*reply)) {
    const Code code = refusal->code == Code::kOk ? Code::kUnknown : refusal->code;
    return tl::unexpected(NoTalk{code, std::move(refusal->text), pid_});
  }
  return std::move(*reply);
}

}  // namespace rhizome
