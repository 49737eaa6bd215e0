#include "contract/result.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

// The names and numbers of google.rpc.Code, written out: serving an error is a cast.
struct NamedCode {
  Code code;
  int number;
  std::string_view name;
};
constexpr NamedCode kCodes[] = {
    {Code::kOk, 0, "OK"},
    {Code::kCancelled, 1, "CANCELLED"},
    {Code::kUnknown, 2, "UNKNOWN"},
    {Code::kInvalidArgument, 3, "INVALID_ARGUMENT"},
    {Code::kDeadlineExceeded, 4, "DEADLINE_EXCEEDED"},
    {Code::kNotFound, 5, "NOT_FOUND"},
    {Code::kAlreadyExists, 6, "ALREADY_EXISTS"},
    {Code::kPermissionDenied, 7, "PERMISSION_DENIED"},
    {Code::kResourceExhausted, 8, "RESOURCE_EXHAUSTED"},
    {Code::kFailedPrecondition, 9, "FAILED_PRECONDITION"},
    {Code::kAborted, 10, "ABORTED"},
    {Code::kOutOfRange, 11, "OUT_OF_RANGE"},
    {Code::kUnimplemented, 12, "UNIMPLEMENTED"},
    {Code::kInternal, 13, "INTERNAL"},
    {Code::kUnavailable, 14, "UNAVAILABLE"},
    {Code::kDataLoss, 15, "DATA_LOSS"},
    {Code::kUnauthenticated, 16, "UNAUTHENTICATED"},
};

TEST(Code, HasTheCanonicalNumbersAndNames) {
  std::set<int> numbers;
  for (const NamedCode& expected : kCodes) {
    EXPECT_EQ(static_cast<int>(expected.code), expected.number);
    EXPECT_EQ(code_name(expected.code), expected.name);
    numbers.insert(expected.number);
  }
  EXPECT_EQ(numbers.size(), 17u);
  EXPECT_EQ(*numbers.rbegin(), 16);
}

TEST(Code, GivesWhatIsNoCodeTheNameOfUnknown) {
  EXPECT_EQ(code_name(static_cast<Code>(200)), "UNKNOWN");
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail(Code::kInvalidArgument, "the number is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  const Result<int> once = half(value);
  if (!once) return fail(once.error());
  return half(*once);
}

Status must_be_even(int value) {
  const Result<int> result = half(value);
  if (!result) return fail(result.error());
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, 4);

  const Result<int> bad = half(7);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  EXPECT_STREQ(bad.error().reason, "the number is odd");
}

TEST(Result, PassesAnErrorOnUnchanged) {
  EXPECT_EQ(quarter(12).value(), 3);
  const Result<int> bad = quarter(6);
  ASSERT_FALSE(bad.has_value());
  EXPECT_STREQ(bad.error().reason, "the number is odd");
}

TEST(Result, OfNothingIsAStatus) {
  EXPECT_TRUE(must_be_even(2).has_value());
  const Status bad = must_be_even(3);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<std::string>> made = std::make_unique<std::string>("bytes");
  ASSERT_TRUE(made.has_value());
  const std::unique_ptr<std::string> taken = std::move(*made);
  EXPECT_EQ(*taken, "bytes");
}

TEST(Error, IsEqualByCodeWhateverTheReasonSays) {
  EXPECT_EQ((Error{Code::kNotFound, "a"}), (Error{Code::kNotFound, "b"}));
  EXPECT_FALSE((Error{Code::kNotFound, "a"}) == (Error{Code::kDataLoss, "a"}));
}

}  // namespace
}  // namespace rhizome
