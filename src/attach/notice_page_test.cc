#include "attach/notice_page.h"

#include <atomic>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

TEST(NoticePages, TellWhatTheNodeTakesBack) {
  const Mapping own = Mapping::shareable(kSharedPageBytes).value();
  NoticeWriter writer(own.bytes(), 77);
  const Descriptor handed(::fcntl(own.descriptor(), F_DUPFD_CLOEXEC, 0));
  const Mapping theirs = Mapping::attach_shared(handed, kSharedPageBytes, Mapping::Access::kRead).value();
  const NoticeReader reader = NoticeReader::attach(theirs.bytes()).value();
  EXPECT_EQ(reader.incarnation(), 77u);
  EXPECT_EQ(reader.unmap_generation(), 0u);
  const uint32_t noted = reader.revocations();
  EXPECT_FALSE(reader.was_revoked_since(noted));
  writer.revoke();
  EXPECT_TRUE(reader.was_revoked_since(noted));
  writer.revoke();
  EXPECT_EQ(reader.revocations(), noted + 2);
  EXPECT_EQ(writer.revocations(), noted + 2);
  writer.ask_to_unmap(5);
  EXPECT_EQ(reader.unmap_generation(), 5u);
}

TEST(NoticePages, WakeWhoWaitsForSomething) {
  const Mapping own = Mapping::shareable(kSharedPageBytes).value();
  NoticeWriter writer(own.bytes(), 77);
  const Descriptor handed(::fcntl(own.descriptor(), F_DUPFD_CLOEXEC, 0));
  const Mapping theirs = Mapping::attach_shared(handed, kSharedPageBytes, Mapping::Access::kRead).value();
  const NoticeReader reader = NoticeReader::attach(theirs.bytes()).value();
  const uint64_t far_away_ns = monotonic_now_ns() + 60'000'000'000;
  const uint32_t noted = reader.stirrings();
  writer.stir();
  reader.sleep_until_stirred(noted, far_away_ns);
  EXPECT_EQ(reader.stirrings(), noted + 1) << "before it slept";
  std::atomic<bool> has_looked{false};
  Thread other = *start_thread("sleeper", [&] {
    const uint32_t seen = reader.stirrings();
    has_looked = true;
    while (reader.stirrings() == seen && monotonic_now_ns() < far_away_ns)
      reader.sleep_until_stirred(seen, far_away_ns);
  });
  while (!has_looked)
    yield_thread();
  writer.stir();
  other.join();
  EXPECT_LT(monotonic_now_ns(), far_away_ns);
  reader.sleep_until_stirred(reader.stirrings(), monotonic_now_ns());
}

TEST(NoticePages, OpenOnlyWhatIsOne) {
  const Mapping memory = Mapping::anonymous(kSharedPageBytes).value();
  EXPECT_EQ(NoticeReader::attach(memory.bytes()).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(NoticeReader::attach(memory.bytes().first(8)).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace rhizome
