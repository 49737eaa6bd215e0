#include "machine/units.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

struct Row {
  const char* text;
  uint64_t value;
};

TEST(ParseBytes, UnderstandsUnits) {
  const Row rows[] = {
      {"64MiB", 67'108'864},
      {"4GiB", 4'294'967'296},
      {"500MB", 500'000'000},
      {"1KiB", 1024},
      {"1kb", 1000},
      {"2TiB", 2ull << 40},
      {"3TB", 3'000'000'000'000},
      {"7GB", 7'000'000'000},
      {"0B", 0},
      {"12b", 12},
      {"64 mib", 67'108'864},
      {"1.5GiB", 1'610'612'736},
      {"0.5KiB", 512},
      {"1.0005KB", 1000},
      {"18446744073709551615B", UINT64_MAX},
      {"16777215TiB", 16'777'215ull << 40},
  };
  for (const Row& row : rows) {
    const Result<uint64_t> parsed = parse_bytes(row.text);
    ASSERT_TRUE(parsed.has_value()) << row.text;
    EXPECT_EQ(*parsed, row.value) << row.text;
  }
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  const char* const texts[] = {"",
                               " ",
                               "64",
                               "64M",
                               "64G",
                               "MiB",
                               "-1MiB",
                               "+1MiB",
                               "1e3MiB",
                               "1.MiB",
                               ".5MiB",
                               "1,5MiB",
                               "64  MiB",
                               " 64MiB",
                               "64MiB ",
                               "64MiBs",
                               "0x10B",
                               "1..5GB",
                               "nan",
                               "64XiB",
                               "1.2.3MB",
                               "64Mi B",
                               "\xff",
                               "64MiB\n",
                               "1.0123456789KB",
                               "16777216TiB",
                               "18446744073709551616B",
                               "99999999999999999999TB"};
  for (const char* const text : texts) {
    const Result<uint64_t> parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(ParseBytes, ReadsAPlainNumberOnlyWhereThatIsAskedFor) {
  EXPECT_EQ(parse_bytes_or_plain("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes_or_plain("0").value(), 0u);
  EXPECT_EQ(parse_bytes_or_plain("64MiB").value(), 67'108'864u);
  for (const char* const text : {"", "4096 ", "1.5", "-4096", "4k", "18446744073709551616"}) {
    EXPECT_FALSE(parse_bytes_or_plain(text).has_value()) << text;
  }
}

TEST(FormatBytes, RoundsToOneDigit) {
  const Row rows[] = {
      {"0B", 0},
      {"1B", 1},
      {"1023B", 1023},
      {"1KiB", 1024},
      {"1.5KiB", 1536},
      {"64MiB", 67'108'864},
      {"1.5GiB", 1'610'612'736},
      {"2GiB", (2ull << 30) - 1},
      {"16777216TiB", UINT64_MAX},
  };
  for (const Row& row : rows)
    EXPECT_EQ(format_bytes(row.value), row.text);
}

TEST(FormatBytes, IsReadBackExactlyForWholeUnits) {
  for (const uint64_t bytes : {1ull, 1024ull, 67'108'864ull, 3ull << 30, 5ull << 40}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
  }
}

TEST(ParseDuration, UnderstandsUnits) {
  const Row rows[] = {
      {"250ms", 250'000'000},
      {"30s", 30 * kSecondNs},
      {"2h", 7200 * kSecondNs},
      {"1.5s", 1'500'000'000},
      {"5m", 300 * kSecondNs},
      {"1d", 86'400 * kSecondNs},
      {"10us", 10'000},
      {"0s", 0},
      {"7ns", 7},
      {"2 MS", 2'000'000},
  };
  for (const Row& row : rows) {
    const Result<uint64_t> parsed = parse_duration_ns(row.text);
    ASSERT_TRUE(parsed.has_value()) << row.text;
    EXPECT_EQ(*parsed, row.value) << row.text;
  }
}

TEST(ParseDuration, RefusesWhatIsNoDuration) {
  for (const char* const text : {"", "30", "-1s", "s", "1w", "1s2", "1 s ", "213504d", "1e9s"}) {
    const Result<uint64_t> parsed = parse_duration_ns(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(FormatCount, OneIsSingular) {
  EXPECT_EQ(format_count(0, "block"), "0 blocks");
  EXPECT_EQ(format_count(1, "block"), "1 block");
  EXPECT_EQ(format_count(2, "file"), "2 files");
}

TEST(FormatDuration, RoundsToOneDigit) {
  const Row rows[] = {
      {"0ns", 0},
      {"250ms", 250'000'000},
      {"1.5s", 1'500'000'000},
      {"2h", 7200 * kSecondNs},
      {"1.5m", 90'000'000'000},
      {"12.3us", 12'345},
      {"1d", 86'400 * kSecondNs},
  };
  for (const Row& row : rows)
    EXPECT_EQ(format_duration(row.value), row.text);
}

}  // namespace
}  // namespace rhizome
