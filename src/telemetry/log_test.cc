#include "telemetry/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/thread.h"

namespace rhizome {
namespace {

// Runs `body` and returns what it wrote to stderr.
template <class Body>
std::string stderr_of(Body body) {
  testing::internal::CaptureStderr();
  body();
  std::string text = testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kInfo);
  return text;
}

TEST(Log, WritesOneLineEach) {
  EXPECT_EQ(stderr_of([] {
              log_info("{} blocks of {:.1f} MiB", 3, 1.5);
              log_warning("slow");
              log_error("gone: {}", std::string("file"));
            }),
            "rhizome: 3 blocks of 1.5 MiB\nrhizome: warning: slow\nrhizome: error: gone: file\n");
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  const auto say_all = [] {
    log_debug("d");
    log_info("i");
    log_warning("w");
    log_error("e");
  };
  const std::string d = "rhizome: debug: d\n";
  const std::string i = "rhizome: i\n";
  const std::string w = "rhizome: warning: w\n";
  const std::string e = "rhizome: error: e\n";
  const std::pair<LogLevel, std::string> rows[] = {{LogLevel::kDebug, d + i + w + e},
                                                   {LogLevel::kInfo, i + w + e},
                                                   {LogLevel::kWarning, w + e},
                                                   {LogLevel::kError, e},
                                                   {LogLevel::kSilent, ""}};
  for (const auto& row : rows) {
    EXPECT_EQ(stderr_of([&row, &say_all] {
                set_log_level(row.first);
                say_all();
              }),
              row.second);
  }
}

TEST(Log, StaysALineWhateverTheArguments) {
  EXPECT_EQ(stderr_of([] { log_info("model {}", "a\nrhizome: error: forged\x1b[31m\x7f"); }),
            "rhizome: model a?rhizome: error: forged?[31m?\n");
  // Bytes of other scripts pass as they are, and braces in arguments are no format.
  EXPECT_EQ(stderr_of([] { log_info("{}", "modèle {} {nonsense}"); }), "rhizome: modèle {} {nonsense}\n");
}

TEST(Log, WritesLongLinesWhole) {
  const std::string text(10'000, 'x');
  EXPECT_EQ(stderr_of([&text] { log_info("{}", text); }), "rhizome: " + text + "\n");
}

TEST(Log, SurvivesABadFormat) {
  const std::string text = stderr_of([] { log_formatted(LogLevel::kInfo, "{:d}", fmt::format_args()); });
  EXPECT_EQ(text, "");
}

TEST(Log, SaysOnceWhatIsToBeSaidOnce) {
  EXPECT_EQ(stderr_of([] {
              for (int i = 0; i < 3; ++i) {
                log_once("first key", "seen {}", i);
                log_once("second key", "also {}", i);
              }
            }),
            "rhizome: warning: seen 0\nrhizome: warning: also 0\n");
}

TEST(Log, KeepsAnUnsaidOnceForLater) {
  EXPECT_EQ(stderr_of([] {
              set_log_level(LogLevel::kSilent);
              log_once("third key", "lost");
              set_log_level(LogLevel::kInfo);
              log_once("third key", "said");
            }),
            "rhizome: warning: said\n");
}

TEST(Log, KeepsLinesOfManyThreadsApart) {
  constexpr int kLines = 500;
  const std::string text = stderr_of([] {
    std::vector<Thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.push_back(start_thread("speaker", [] {
                          for (int line = 0; line < kLines; ++line)
                            log_info("a line of {}", "text");
                        }).value());
    }
    threads.clear();
  });
  const std::string line = "rhizome: a line of text\n";
  std::string expected;
  for (int i = 0; i < 3 * kLines; ++i)
    expected += line;
  EXPECT_EQ(text, expected);
}

// Last in the file: it fills the table of keys.
TEST(LogOnce, RemembersSoManyKeysAndThenSaysNothing) {
  int firsts = 0;
  for (int i = 0; i < 3000; ++i)
    firsts += log_first_time("key " + std::to_string(i)) ? 1 : 0;
  EXPECT_LE(firsts, 1024);
  EXPECT_GT(firsts, 1000);
  EXPECT_FALSE(log_first_time("yet another"));
}

}  // namespace
}  // namespace rhizome
