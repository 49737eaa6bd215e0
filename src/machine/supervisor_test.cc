#include "machine/supervisor.h"

#include <array>
#include <map>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "machine/clock.h"
#include "machine/forked_child.h"
#include "machine/mapping.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

using Variables = std::map<std::string, std::string>;

Supervision from(const Variables& variables) {
  return take_supervision([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Supervisor, WhatIsForAnotherProcessIsNotTaken) {
  const std::string next = std::to_string(::getpid() + 1);
  const Supervision supervision = from({{"NOTIFY_SOCKET", "/run/notify"},
                                        {"FDSTORE", "512"},
                                        {"LISTEN_PID", next},
                                        {"LISTEN_FDS", "1"},
                                        {"LISTEN_FDNAMES", "one"}});
  EXPECT_EQ(supervision.socket_path, "/run/notify");
  EXPECT_EQ(supervision.held_max, 512u);
  EXPECT_TRUE(supervision.passed.empty());
  EXPECT_TRUE(from({}).socket_path.empty());
}

TEST(Supervisor, NonsenseIsNothing) {
  const std::string self = std::to_string(::getpid());
  for (const char* const count : {"", "-1", "x", "1x", "99999999999999999999", " 1"}) {
    const Supervision supervision = from({{"FDSTORE", count}, {"LISTEN_PID", self}, {"LISTEN_FDS", count}});
    EXPECT_EQ(supervision.held_max, 0u) << count;
    EXPECT_TRUE(supervision.passed.empty()) << count;
  }
}

// In a process of its own: what has the numbers from 3 on is its own business there.
TEST(Supervisor, DescriptorsComeWithTheirNames) {
  ForkedChild child([] {
    const std::array<int, 2> files = {::open("/dev/null", O_RDONLY), ::open("/dev/zero", O_RDONLY)};
    if (::dup2(files[0], 100) != 100 || ::dup2(files[1], 101) != 101) return 1;
    if (::dup2(100, 3) != 3 || ::dup2(101, 4) != 4) return 2;
    ::close(5);
    const std::string self = std::to_string(::getpid());
    // One name less, and one descriptor more, than there are.
    const Supervision supervision = from({{"LISTEN_PID", self}, {"LISTEN_FDS", "3"}, {"LISTEN_FDNAMES", "first"}});
    if (supervision.passed.size() != 2) return 3;
    if (supervision.passed[0].name != "first" || !supervision.passed[1].name.empty()) return 4;
    if (supervision.passed[0].descriptor.number() != 3 || supervision.passed[1].descriptor.number() != 4) return 5;
    if ((::fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) return 6;
    char byte = 1;
    return ::read(4, &byte, 1) == 1 && byte == 0 ? 0 : 7;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Supervisor, IsToldAndGivenDescriptors) {
  const TemporaryFolder folder;
  const std::string path = folder.path("notify");
  EXPECT_EQ(connect_to_supervisor(path).error().code, Code::kNotFound);
  EXPECT_EQ(connect_to_supervisor("").error().code, Code::kInvalidArgument);
  const Descriptor ear(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(ear.number(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  Result<LocalSocket> socket = connect_to_supervisor(path);
  ASSERT_TRUE(socket);
  Result<Mapping> memory = Mapping::shareable(4096);
  ASSERT_TRUE(memory);
  memory->bytes()[7] = std::byte{42};
  const Result<Descriptor> again = open_again(memory->descriptor());
  ASSERT_TRUE(again);
  const std::string said = "FDSTORE=1";
  const int number = again->number();
  ASSERT_TRUE(socket->send(std::as_bytes(std::span(said)), monotonic_now_ns(), std::span(&number, 1)));
  LocalSocket heard{Descriptor(::dup(ear.number()))};
  std::array<std::byte, 64> room{};
  Result<ReceivedMessage> message = heard.receive(room, monotonic_now_ns());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, said.size());
  ASSERT_EQ(message->descriptors.size(), 1u);
  const Result<Mapping> same = Mapping::adopt_shared(std::move(message->descriptors[0]), 4096);
  ASSERT_TRUE(same) << same.error().reason;
  EXPECT_EQ(same->bytes()[7], std::byte{42});
  EXPECT_EQ(same->file_number(), memory->file_number());
}

}  // namespace
}  // namespace rhizome
