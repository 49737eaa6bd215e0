#include "machine/local_socket.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/files.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;

// An upper bound for a busy machine, never waited out.
uint64_t patience() {
  return monotonic_now_ns() + 60'000 * kMillisecondNs;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

size_t open_descriptors() {
  return list_directory("/proc/self/fd").value().size();
}

class LocalSockets : public testing::Test {
 protected:
  std::string path(const std::string& name = "socket") const { return folder_.path(name); }
  std::string text_of(LocalSocket& socket) {
    const auto message = socket.receive(room_, patience());
    if (!message) return std::string("error: ") + message.error().reason;
    if (message->has_ended) return "end";
    return {reinterpret_cast<const char*>(room_.data()), message->bytes};
  }

  // The file of a socket whose process is gone.
  void leave_dead_socket(const std::string& name) {
    const Descriptor dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path(name).copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(dead.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  const TemporaryFolder folder_;
  std::vector<std::byte> room_ = std::vector<std::byte>(kMessageBytesMax);
};

TEST_F(LocalSockets, CarryMessagesBothWaysAndKeepThemApart) {
  LocalListener listener = LocalListener::listen(path()).value();
  LocalSocket client = LocalSocket::connect(path(), patience()).value();
  LocalSocket server = listener.accept(patience()).value();
  ASSERT_TRUE(client.send(bytes_of("one"), patience()));
  ASSERT_TRUE(client.send(bytes_of("two"), patience()));
  EXPECT_EQ(text_of(server), "one");
  EXPECT_EQ(text_of(server), "two");
  const std::vector<std::byte> longest(kMessageBytesMax, std::byte{5});
  ASSERT_TRUE(server.send(longest, patience()));
  const auto got = client.receive(room_, patience());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->bytes, kMessageBytesMax);
  EXPECT_EQ(room_, longest);
}

TEST_F(LocalSockets, TellTheEndFromEverythingElse) {
  auto [first, second] = LocalSocket::pair().value();
  EXPECT_EQ(first.receive(room_, 0).error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(first.receive(room_, monotonic_now_ns() + kMillisecondNs).error().code, Code::kDeadlineExceeded);
  ASSERT_TRUE(second.send(bytes_of("last"), 0));
  ASSERT_TRUE(first.send(bytes_of("unread"), 0));
  second.close();
  EXPECT_EQ(text_of(first), "last");
  EXPECT_EQ(text_of(first), "end");
  EXPECT_EQ(text_of(first), "end");
  // No signal: this process would be gone.
  EXPECT_EQ(first.send(bytes_of("x"), patience()).error().code, Code::kUnavailable);
}

TEST_F(LocalSockets, RefuseToSendWhatCannotArrive) {
  auto [first, second] = LocalSocket::pair().value();
  const std::vector<std::byte> much(kMessageBytesMax + 1);
  const std::vector<int> many(kMessageDescriptorsMax + 1, first.descriptor());
  const std::vector<int> none = {-1};
  EXPECT_EQ(first.send({}, patience()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(first.send(much, patience()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(first.send(bytes_of("x"), patience(), many).error().code, Code::kInvalidArgument);
  EXPECT_EQ(first.send(bytes_of("x"), patience(), none).error().code, Code::kInvalidArgument);
  EXPECT_EQ(second.receive(room_, 0).error().code, Code::kDeadlineExceeded);
}

TEST_F(LocalSockets, DoNotWaitLongerForAPeerThatDoesNotRead) {
  auto [first, second] = LocalSocket::pair().value();
  const std::vector<std::byte> longest(kMessageBytesMax);
  Status sent;
  for (int i = 0; i < 1000 && sent; ++i)
    sent = first.send(longest, 0);
  EXPECT_EQ(sent.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(first.send(longest, monotonic_now_ns() + kMillisecondNs).error().code, Code::kDeadlineExceeded);
  const Thread reader = start_thread("reader", [&reading = second, this] {
                          while (text_of(reading) != "x") {
                          }
                        }).value();
  EXPECT_TRUE(first.send(bytes_of("x"), patience()));
}

TEST_F(LocalSockets, CarryDescriptors) {
  auto [first, second] = LocalSocket::pair().value();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Descriptor read_end(pipe[0]);
  Descriptor write_end(pipe[1]);
  const std::vector<int> sent(kMessageDescriptorsMax, write_end.number());
  const size_t before = open_descriptors();
  ASSERT_TRUE(first.send(bytes_of("x"), patience(), sent));
  {
    const ReceivedMessage message = second.receive(room_, patience()).value();
    ASSERT_EQ(message.descriptors.size(), kMessageDescriptorsMax);
    for (const Descriptor& descriptor : message.descriptors) {
      EXPECT_NE(::fcntl(descriptor.number(), F_GETFD) & FD_CLOEXEC, 0);
      EXPECT_EQ(::write(descriptor.number(), "y", 1), 1);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
  std::array<char, 16> read{};
  EXPECT_EQ(::read(read_end.number(), read.data(), read.size()), static_cast<ssize_t>(kMessageDescriptorsMax));
}

TEST_F(LocalSockets, CloseTheDescriptorsOfAMessageTheyDoNotTake) {
  auto [first, second] = LocalSocket::pair().value();
  const std::vector<int> two(2, first.descriptor());
  const size_t before = open_descriptors();
  ASSERT_TRUE(first.send(bytes_of("too long"), patience(), two));
  EXPECT_EQ(second.receive(std::span(room_).first(7), patience()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(open_descriptors(), before);

  // More descriptors than a message may have, as only a stranger sends them; also in an empty message.
  for (const size_t bytes : {size_t{1}, size_t{0}}) {
    std::array<std::byte, CMSG_SPACE(20 * sizeof(int))> control{};
    iovec part = {room_.data(), bytes};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(20 * sizeof(int));
    for (int i = 0; i < 20; ++i)
      std::copy_n(reinterpret_cast<const unsigned char*>(two.data()), sizeof(int), CMSG_DATA(rights) + i * sizeof(int));
    ASSERT_EQ(::sendmsg(first.descriptor(), &header, 0), static_cast<ssize_t>(bytes));
    EXPECT_EQ(second.receive(room_, patience()).error().code, Code::kInvalidArgument);
    EXPECT_EQ(open_descriptors(), before);
  }
  ASSERT_TRUE(first.send(bytes_of("and on"), patience()));
  EXPECT_EQ(text_of(second), "and on");
}

TEST_F(LocalSockets, SurviveAProcessWithoutRoomForDescriptors) {
  auto [first, second] = LocalSocket::pair().value();
  LocalSocket& other = second;
  const std::vector<int> two(2, first.descriptor());
  ASSERT_TRUE(first.send(bytes_of("x"), patience(), two));
  // The sanitizer looks at the fixture with descriptors of its own, of which there will be none.
  std::array<std::byte, 16> room{};
  const uint64_t deadline = patience();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor lowest_free(::dup(first.descriptor()));
  const rlimit none = {static_cast<rlim_t>(lowest_free.number()) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto received = other.receive(room, deadline);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(received.error().code, Code::kInvalidArgument);
}

TEST_F(LocalSockets, TakeNoDescriptorsWhenTheyAreRefused) {
  auto [first, second] = LocalSocket::pair().value();
  if (!second.refuse_descriptors()) GTEST_SKIP() << "the kernel cannot";
  const std::vector<int> one = {first.descriptor()};
  EXPECT_FALSE(first.send(bytes_of("x"), patience(), one).has_value());
  ASSERT_TRUE(first.send(bytes_of("y"), patience()));
  EXPECT_EQ(text_of(second), "y");
}

TEST_F(LocalSockets, TellWhoThePeerIs) {
  LocalListener listener = LocalListener::listen(path()).value();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto client = LocalSocket::connect(path(), patience());
    std::array<std::byte, 8> room{};
    // Until the parent has closed its end.
    if (client) static_cast<void>(LocalSocket(Descriptor(::dup(client->descriptor()))).receive(room, patience()));
    ::_exit(0);
  }
  LocalSocket server = listener.accept(patience()).value();
  const PeerCredentials peer = server.peer_credentials().value();
  EXPECT_EQ(peer.pid, child);
  EXPECT_EQ(peer.uid, ::geteuid());
  EXPECT_EQ(peer.gid, ::getegid());
  server.close();
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(LocalSockets, CannotConnectWhereNobodyListens) {
  EXPECT_EQ(LocalSocket::connect(path(), patience()).error().code, Code::kNotFound);
  leave_dead_socket("dead");
  EXPECT_EQ(LocalSocket::connect(path("dead"), patience()).error().code, Code::kUnavailable);
  for (const std::string& wrong : {std::string(), std::string(108, 'a'), std::string("\0abstract", 9)})
    EXPECT_EQ(LocalSocket::connect(wrong, patience()).error().code, Code::kInvalidArgument);
}

TEST_F(LocalSockets, DoNotWaitLongerForAListenerThatIsBusy) {
  LocalListener listener = LocalListener::listen(path()).value();
  EXPECT_EQ(listener.accept(0).error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(listener.accept(monotonic_now_ns() + kMillisecondNs).error().code, Code::kDeadlineExceeded);
  std::vector<LocalSocket> waiting;
  for (int i = 0; i < 1000; ++i) {
    auto one = LocalSocket::connect(path(), 0);
    if (!one) {
      EXPECT_EQ(one.error().code, Code::kDeadlineExceeded);
      break;
    }
    waiting.push_back(std::move(*one));
  }
  EXPECT_LT(waiting.size(), 1000u);
  // One whose queue is full is alive.
  EXPECT_EQ(LocalListener::listen(path()).error().code, Code::kAlreadyExists);
  for (size_t i = 0; i < waiting.size(); ++i)
    EXPECT_TRUE(listener.accept(patience()).has_value());
}

TEST_F(LocalSockets, ListenOnceAtAPathAndForThisUserOnly) {
  const mode_t before = ::umask(0);
  auto listener = LocalListener::listen(path());
  ::umask(before);
  ASSERT_TRUE(listener.has_value());
  struct stat status{};
  ASSERT_EQ(::lstat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(LocalListener::listen(path()).error().code, Code::kAlreadyExists);
  EXPECT_TRUE(LocalSocket::connect(path(), patience()).has_value());
  EXPECT_EQ(list_directory(folder_.path()).value(), std::vector<std::string>{"socket"});
  listener->close();
  EXPECT_TRUE(list_directory(folder_.path()).value().empty());
}

TEST_F(LocalSockets, ReplaceTheSocketOfADeadProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto listener = LocalListener::listen(path());
    ::_exit(listener.has_value() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  struct stat left{};
  ASSERT_EQ(::lstat(path().c_str(), &left), 0);
  LocalListener listener = LocalListener::listen(path()).value();
  const auto client = LocalSocket::connect(path(), patience());
  EXPECT_TRUE(client.has_value());
  EXPECT_TRUE(listener.accept(patience()).has_value());
}

TEST_F(LocalSockets, LeaveTheNameToWhoeverHasItNow) {
  LocalListener first = LocalListener::listen(path()).value();
  ASSERT_EQ(::unlink(path().c_str()), 0);
  const LocalListener second = LocalListener::listen(path()).value();
  first = LocalListener();
  EXPECT_TRUE(LocalSocket::connect(path(), patience()).has_value());
}

TEST_F(LocalSockets, RefuseBadPlacesToListen) {
  EXPECT_EQ(LocalListener::listen("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(LocalListener::listen(std::string("\0abstract", 9)).error().code, Code::kInvalidArgument);
  const auto too_long = LocalListener::listen(path(std::string(108, 'a')));
  EXPECT_EQ(too_long.error().code, Code::kInvalidArgument);
  EXPECT_NE(std::string_view(too_long.error().reason).find("too long"), std::string_view::npos);

  ASSERT_TRUE(write_file_atomically(path("file"), "precious").has_value());
  EXPECT_EQ(LocalListener::listen(path("file")).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(read_text_file(path("file"), 100).value(), "precious");
  ASSERT_EQ(::symlink(path("elsewhere").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(LocalListener::listen(path("link")).error().code, Code::kFailedPrecondition);

  ASSERT_EQ(::mkdir(path("open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path("open").c_str(), 0777), 0);
  EXPECT_EQ(LocalListener::listen(path("open/socket")).error().code, Code::kPermissionDenied);
  EXPECT_TRUE(LocalListener::listen(path("new/socket")).has_value());
  if (::geteuid() == 0) {
    ASSERT_EQ(::mkdir(path("other").c_str(), 0700), 0);
    ASSERT_EQ(::chown(path("other").c_str(), 12345, 12345), 0);
    EXPECT_EQ(LocalListener::listen(path("other/socket")).error().code, Code::kPermissionDenied);
  }
}

TEST_F(LocalSockets, AreListenedAtByOneOfManyThatStartAtOnce) {
  constexpr int kStarters = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string name = path("s" + std::to_string(round));
    leave_dead_socket("s" + std::to_string(round));
    std::array<Result<LocalListener>, kStarters> listeners;
    std::vector<Thread> threads;
    for (auto& listener : listeners)
      threads.push_back(start_thread("starter", [&] { listener = LocalListener::listen(name); }).value());
    threads.clear();
    int listening = 0;
    for (const auto& listener : listeners) {
      listening += listener.has_value() ? 1 : 0;
      if (!listener) {
        EXPECT_EQ(listener.error().code, Code::kAlreadyExists);
      }
    }
    EXPECT_EQ(listening, 1);
    EXPECT_TRUE(LocalSocket::connect(name, patience()).has_value());
  }
}

}  // namespace
}  // namespace rhizome
