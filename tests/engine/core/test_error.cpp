#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string message_of(void (*function)()) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
    return error.what();
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

TEST(Check, NamesFileLineExpressionAndContext) {
  const std::string message = message_of([] { CHECK(1 + 1 == 3) << "rank " << 7; });
  EXPECT_THAT(message, StartsWith("tests/engine/core/test_error.cpp:"));
  EXPECT_THAT(message, HasSubstr("1 + 1 == 3"));
  EXPECT_THAT(message, HasSubstr("rank 7"));
  EXPECT_THAT(message, Not(HasSubstr(BENCHSUITE_SOURCE_DIR)));
}

TEST(Check, PassesSilentlyAndDoesNotEvaluateTheContext) {
  int evaluated = 0;
  CHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(Check, BindsToItsOwnIf) {
  bool other = false;
  if (false)
    CHECK(false);
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(Violations, OneLineEach) {
  const Violation full{"a.json", "layout.tp", "3", "heads are not a multiple", "choose 2 or 4"};
  EXPECT_EQ(to_string(full), "a.json: layout.tp = 3: heads are not a multiple; choose 2 or 4");
  const Violation bare{"a.json", "", "", "malformed", ""};
  EXPECT_EQ(to_string(bare), "a.json: malformed");
  const Violation no_file{"", "layout.tp", "", "missing", "add it"};
  EXPECT_EQ(to_string(no_file), "layout.tp: missing; add it");
}

TEST(Violations, AnErrorCarriesAll) {
  const Error error({{"a.json", "x", "1", "bad", ""}, {"a.json", "y", "2", "worse", ""}});
  EXPECT_EQ(error.kind(), Error::Kind::config);
  ASSERT_EQ(error.violations().size(), 2u);
  EXPECT_STREQ(error.what(), "a.json: x = 1: bad\na.json: y = 2: worse");
}

TEST(CheckedArithmetic, DivExact) {
  EXPECT_EQ(div_exact(12, 4), 3);
  EXPECT_THROW(div_exact(13, 4), Error);
  EXPECT_THROW(div_exact(13, 0), Error);
}

TEST(CheckedArithmetic, Rounding) {
  EXPECT_EQ(div_ceil(12, 4), 3);
  EXPECT_EQ(div_ceil(13, 4), 4);
  EXPECT_EQ(round_up(50257, 128), 50304);
  EXPECT_EQ(round_up(50304, 128), 50304);
}

TEST(CheckedArithmetic, Narrow) {
  EXPECT_EQ(narrow<std::int32_t>(std::int64_t{2147483647}), 2147483647);
  EXPECT_THROW(narrow<std::int32_t>(std::int64_t{2147483648}), Error);
  EXPECT_THROW(narrow<std::uint32_t>(-1), Error);
}

}  // namespace
}  // namespace benchsuite
