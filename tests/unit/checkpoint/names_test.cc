#include "server/checkpoint/names.h"

#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

TEST(NamesTest, AcceptsValidNames) {
  for (const std::string& name : {std::string("a"), std::string("0"), std::string("ocr/layer0"),
                                  std::string("a.b_c-d/e.f"), std::string("a/-/_"), std::string(128, 'a')}) {
    EXPECT_THAT(CheckName("checkpoint", name), IsOk()) << name;
  }
}

TEST(NamesTest, RefusesOtherNamesAndStatesTheRule) {
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
                         ::testing::StartsWith("weight_set: expected a name [a-z0-9][a-z0-9._/-]{0,127} ")))
        << name;
  }
}

TEST(NamesTest, EscapesAndCutsTheNameInTheError) {
  EXPECT_THAT(CheckName("name", absl::string_view("a\0\n", 3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(R"(got "a\000\n")")));
  EXPECT_THAT(CheckName("name", std::string(1 << 20, 'A')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::EndsWith(absl::StrCat("\"", std::string(97, 'A'), "...\""))));
}

TEST(NamesTest, AcceptsValidAliases) {
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
                                                     HasSubstr("alias: expected an alias [a-z0-9][a-z0-9._-]{0,63}")))
        << alias;
  }
}

TEST(CheckNotShardTest, RefusesOneOfSeveralFiles) {
  for (const char* name : {"model-00001-of-00005", "a/model-00012-of-00012", "-00001-of-00002"}) {
    EXPECT_THAT(CheckNotShard(name), test::StatusIs(absl::StatusCode::kInvalidArgument,
                                                    ::testing::HasSubstr("file: expected a whole checkpoint")))
        << name;
  }
  EXPECT_THAT(
      CheckNotShard("model-00002-of-00005"),
      test::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("got file 00002 of 00005; save")));
}

TEST(CheckNotShardTest, AcceptsOtherNames) {
  for (const char* name : {"", "model", "model-00001-of-00001", "model-1-of-5", "model-00001-of-0000x",
                           "model-00001-of-00005x", "model-00001-in-00005", "00001-of-00005"}) {
    EXPECT_THAT(CheckNotShard(name), test::IsOk()) << name;
  }
}

}  // namespace
}  // namespace attention::server
