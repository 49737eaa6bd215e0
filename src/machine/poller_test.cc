#include "machine/poller.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/local_socket.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

using Interest = Poller::Interest;

uint64_t patience() {
  return monotonic_now_ns() + 60'000'000'000;
}

constexpr std::array<std::byte, 1> kMessage = {std::byte{1}};

TEST(Poller, GivesTheTokensOfWhatIsReady) {
  Poller poller = Poller::create().value();
  std::array<Poller::Ready, 8> ready;
  EXPECT_EQ(poller.wait(ready, 0).value(), 0u);
  EXPECT_EQ(poller.wait(ready, monotonic_now_ns() + 1'000'000).value(), 0u);

  auto [first, second] = LocalSocket::pair().value();
  ASSERT_TRUE(poller.add(first.descriptor(), 7, Interest::kRead));
  EXPECT_EQ(poller.add(first.descriptor(), 8, Interest::kRead).error().code, Code::kAlreadyExists);
  EXPECT_EQ(poller.wait(ready, 0).value(), 0u);
  ASSERT_TRUE(second.send(kMessage, 0));
  // For as long as it is.
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(poller.wait(ready, patience()).value(), 1u);
    EXPECT_EQ(ready[0].token, 7u);
    EXPECT_TRUE(ready[0].is_readable);
    EXPECT_FALSE(ready[0].is_writable);
    EXPECT_FALSE(ready[0].has_ended);
  }
  ASSERT_TRUE(poller.change(first.descriptor(), 9, Interest::kReadAndWrite));
  ASSERT_EQ(poller.wait(ready, patience()).value(), 1u);
  EXPECT_EQ(ready[0].token, 9u);
  EXPECT_TRUE(ready[0].is_readable && ready[0].is_writable);
  second.close();
  ASSERT_EQ(poller.wait(ready, patience()).value(), 1u);
  EXPECT_TRUE(ready[0].has_ended);
  ASSERT_TRUE(poller.remove(first.descriptor()));
  EXPECT_EQ(poller.remove(first.descriptor()).error().code, Code::kNotFound);
  EXPECT_EQ(poller.change(first.descriptor(), 9, Interest::kRead).error().code, Code::kNotFound);
  EXPECT_EQ(poller.wait(ready, 0).value(), 0u);
}

TEST(Poller, WaitsForTheEndAlone) {
  Poller poller = Poller::create().value();
  std::array<Poller::Ready, 8> ready;
  auto [first, second] = LocalSocket::pair().value();
  ASSERT_TRUE(poller.add(first.descriptor(), 7, Interest::kEnd));
  ASSERT_TRUE(second.send(kMessage, 0));
  EXPECT_EQ(poller.wait(ready, monotonic_now_ns() + 1'000'000).value(), 0u) << "messages are somebody else's";
  second.close();
  ASSERT_EQ(poller.wait(ready, patience()).value(), 1u);
  EXPECT_EQ(ready[0].token, 7u);
  EXPECT_TRUE(ready[0].has_ended);
}

TEST(Poller, RefusesWhatCannotBeWaitedFor) {
  Poller poller = Poller::create().value();
  const TemporaryFolder folder;
  const Descriptor file(::open(folder.path("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(poller.add(file.number(), 1, Interest::kRead).error().code, Code::kPermissionDenied);
  EXPECT_EQ(poller.add(-1, 1, Interest::kRead).error().code, Code::kInvalidArgument);
}

TEST(Poller, GivesAllTheirTurnWhenTheRoomIsSmall) {
  Poller poller = Poller::create().value();
  std::vector<std::pair<LocalSocket, LocalSocket>> pairs;
  for (uint64_t i = 0; i < 20; ++i) {
    pairs.push_back(LocalSocket::pair().value());
    ASSERT_TRUE(poller.add(pairs.back().first.descriptor(), i, Interest::kRead));
    ASSERT_TRUE(pairs.back().second.send(kMessage, 0));
  }
  std::array<int, 20> seen{};
  std::array<Poller::Ready, 3> ready;
  for (int i = 0; i < 200; ++i) {
    const size_t count = poller.wait(ready, patience()).value();
    ASSERT_GE(count, 1u);
    for (size_t k = 0; k < count; ++k)
      ++seen[ready[k].token];
  }
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 0);
}

TEST(Poller, IsWokenFromElsewhere) {
  Poller poller = Poller::create().value();
  std::array<Poller::Ready, 8> ready;
  // Before the wait, and once however many times it was called.
  poller.wake();
  poller.wake();
  EXPECT_EQ(poller.wait(ready, patience()).value(), 0u);
  EXPECT_EQ(poller.wait(ready, 0).value(), 0u);
  const Thread other = start_thread("waker", [&poller] { poller.wake(); }).value();
  EXPECT_EQ(poller.wait(ready, patience()).value(), 0u);
}

}  // namespace
}  // namespace rhizome
