#include "server/checkpoint/field_error.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::StatusIs;

TEST(FieldErrorTest, NamesTheFieldTheExpectedAndTheActualValue) {
  EXPECT_THAT(FieldError("shape", "at most 8 axes", 9),
              StatusIs(absl::StatusCode::kInvalidArgument, "shape: expected at most 8 axes, got 9"));
}

TEST(EscapeForMessageTest, EscapesEverythingButPrintableAscii) {
  EXPECT_EQ(EscapeForMessage(""), "");
  EXPECT_EQ(EscapeForMessage("a/b c"), "a/b c");
  EXPECT_EQ(EscapeForMessage("\xC3\xA9\n"), R"(\303\251\n)");
}

TEST(EscapeForMessageTest, ReturnsAtMost100Characters) {
  EXPECT_EQ(EscapeForMessage(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(EscapeForMessage(std::string(101, 'a')), std::string(97, 'a') + "...");
  EXPECT_EQ(EscapeForMessage(std::string(100, '\0')).size(), 100u);
}

}  // namespace
}  // namespace attention::server
