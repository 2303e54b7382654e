#include "server/checkpoint/names.h"

#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/escape.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NamesTest, AcceptsNamesByTheRule) {
  for (const std::string& name : {std::string("a"), std::string("0"), std::string("ocr/layer0"),
                                  std::string("a.b_c-d/e.f"), std::string("a/-/_"), std::string(128, 'a')}) {
    EXPECT_THAT(CheckName("checkpoint", name), IsOk()) << name;
  }
}

TEST(NamesTest, RefusesOtherNamesWithTheRule) {
  const std::string names[] = {
      "",
      std::string(129, 'a'),
      "A",
      "ocR",
      ".a",
      "-a",
      "_a",
      "/etc/hostname",
      "../../secret",
      "a/../../b",
      "..",
      "a..b",
      "a//b",
      "a/",
      "a b",
      "a\n",
      "é",
      std::string("a\0b", 3),
      "a\\b",
  };
  for (const std::string& name : names) {
    EXPECT_THAT(CheckName("weight_set", name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(::testing::StartsWith("weight_set: "), HasSubstr("[a-z0-9][a-z0-9._/-]{0,127}"))))
        << name;
  }
}

TEST(NamesTest, EchoesTheNameShortAndEscaped) {
  EXPECT_THAT(CheckName("name", absl::string_view("a\0\n", 3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(R"(found "a\000\n")")));
  EXPECT_THAT(CheckName("name", std::string(1 << 20, 'A')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::EndsWith(absl::StrCat("\"", std::string(97, 'A'), "...\""))));
}

TEST(NamesTest, TakesAliases) {
  for (const std::string& alias :
       {std::string("stable"), std::string("0"), std::string("a.b_c-1"), std::string(64, 'a')}) {
    EXPECT_THAT(CheckAlias("alias", alias), IsOk()) << alias;
  }
}

TEST(NamesTest, RefusesOtherAliases) {
  for (const std::string& alias :
       {std::string(), std::string("A"), std::string("-a"), std::string(".a"), std::string("a/b"), std::string("a b"),
        std::string("a\0", 2), std::string(65, 'a')}) {
    EXPECT_THAT(CheckAlias("alias", alias), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("alias: wanted an alias [a-z0-9][a-z0-9._-]{0,63}")))
        << alias;
  }
}

TEST(EchoTest, ShowsAtMostAHundredCharacters) {
  EXPECT_EQ(Echo(""), "");
  EXPECT_EQ(Echo(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(Echo(std::string(101, 'a')), std::string(97, 'a') + "...");
  EXPECT_EQ(Echo(std::string(100, '\0')).size(), 100u);
  EXPECT_EQ(Echo("\xC3\xA9"), R"(\303\251)");
}

}  // namespace
}  // namespace attention::server
