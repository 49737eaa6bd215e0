// A short talk with a node: whether it takes us, what it holds, and that it is to forget. Maps nothing of it.
//
// Thread-safety: belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "attach/frame.h"
#include "contract/result.h"
#include "machine/local_socket.h"

namespace rhizome {

// Why there is no talk. `code` is kNotFound or kUnavailable where nobody listens.
struct NoTalk {
  Code code = Code::kUnknown;
  std::string line;
  pid_t pid = 0;  // of who refused; 0: nobody is there
};

class NodeInquiry {
 public:
  // `block_tokens` 0: blocks of any size. Waits two seconds for each answer.
  static tl::expected<NodeInquiry, NoTalk> open(const std::string& socket_path, const std::string& tenant,
                                                uint32_t block_tokens);

  pid_t pid() const { return pid_; }
  uint32_t block_tokens() const { return welcome_.block_tokens; }
  uint64_t memory_bytes() const { return welcome_.budget_bytes; }
  bool comes_back() const { return welcome_.comes_back != 0; }
  const LocalSocket& socket() const { return socket_; }

  // The reply to a question of that kind; else what the node says instead.
  template <class Reply>
  tl::expected<Reply, NoTalk> ask(const AnyFrame& question) {
    auto reply = exchange(question);
    if (!reply) return tl::unexpected(reply.error());
    if (Reply* const wanted = std::get_if<Reply>(&*reply)) return std::move(*wanted);
    return tl::unexpected(NoTalk{Code::kInvalidArgument, "the node answered something else", pid_});
  }

 private:
  NodeInquiry(LocalSocket socket, pid_t pid);
  tl::expected<AnyFrame, NoTalk> exchange(const AnyFrame& question);
  tl::unexpected<NoTalk> no_talk(const Error& error) const;

  LocalSocket socket_;
  pid_t pid_ = 0;
  uint64_t last_request_ = 0;
  WelcomeFrame welcome_;
  std::vector<std::byte> room_;  // for a message
};

}  // namespace rhizome
