// For tests: a client of a node that says what it likes, a frame at a time, and looks at what it is given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "attach/frame.h"
#include "machine/clock.h"
#include "machine/descriptor.h"
#include "machine/local_socket.h"
#include "machine/mapping.h"

namespace rhizome {

// The number of the file behind a descriptor: the same memory has the same one, whoever opened it.
inline uint64_t file_number(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

class RawClient {
 public:
  struct Reply {
    AnyFrame frame = GoodbyeFrame();
    std::vector<Descriptor> descriptors = {};
    bool is_there = true;  // else the node has hung up

    explicit operator bool() const { return is_there; }
    // kOk unless it is an error frame.
    Code code() const {
      if (!is_there) return Code::kUnavailable;
      const auto* const error = std::get_if<ErrorFrame>(&frame);
      return error == nullptr ? Code::kOk : error->code;
    }
  };

  // Says hello, with staging memory.
  explicit RawClient(const std::string& socket, const std::string& tenant = {}, uint64_t staging_bytes = 1 << 20)
      : socket_(std::move(*LocalSocket::connect(socket, soon()))),
        staging_(std::move(*Mapping::shareable(staging_bytes, Mapping::Sharing::kWritable))),
        room_(kMessageBytesMax) {
    const int descriptor = staging_.descriptor();
    welcome_ = ask(HelloFrame{.staging_bytes = staging_bytes, .tenant = tenant}, std::span(&descriptor, 1));
  }

  // What hello was answered with; nothing: the node has hung up.
  const Reply& welcome() const { return welcome_; }
  bool is_welcome() const { return welcome_ && std::holds_alternative<WelcomeFrame>(welcome_.frame); }
  const Mapping& staging() const { return staging_; }
  LocalSocket& socket() { return socket_; }

  // The next message; nothing: the node has hung up.
  Reply ask(const AnyFrame& frame, std::span<const int> descriptors = {}) {
    if (!socket_.send(*encode_frame(frame, 7), soon(), descriptors)) return Reply{.is_there = false};
    Result<ReceivedMessage> message = socket_.receive(room_, soon());
    if (!message) {
      EXPECT_NE(message.error().code, Code::kDeadlineExceeded) << "the node says nothing";
      return Reply{.is_there = false};
    }
    if (message->has_ended) return Reply{.is_there = false};
    return Reply{.frame = *decode_frame(std::span<const std::byte>(room_).first(message->bytes)),
                 .descriptors = std::move(message->descriptors)};
  }
  Code code_of(const AnyFrame& frame) { return ask(frame).code(); }

 private:
  static uint64_t soon() { return monotonic_now_ns() + 5'000'000'000; }

  LocalSocket socket_;
  const Mapping staging_;
  std::vector<std::byte> room_;
  Reply welcome_;
};

}  // namespace rhizome
