// Command lines of `attentionctl weights`, and the versions of weight sets.

#include <gmock/gmock.h>

#include "tests/unit/cli/options_fixture.h"

namespace attention::cli {
namespace {

using ::testing::HasSubstr;

using WeightsOptionsTest = OptionsTest;

TEST_F(WeightsOptionsTest, ReadsWeights) {
  const auto list = Good<ListOptions>({"weights", "list", "--prefix", "ocr/", "--json"});
  EXPECT_EQ(list.prefix, "ocr/");
  EXPECT_TRUE(list.json);
  EXPECT_EQ(Good<ShowOptions>({"weights", "show", "a/b"}).name, "a/b");
  EXPECT_EQ(Good<ShowOptions>({"weights", "show", "a/b", "--version", "3"}).which.version, 3);
  EXPECT_EQ(Good<ShowOptions>({"weights", "show", "a/b", "--alias", "stable"}).which.alias, "stable");
  EXPECT_EQ(Good<LoadOptions>({"weights", "load", "a"}).checkpoint, "a");
  EXPECT_EQ(Good<LoadOptions>({"weights", "load", "a", "--num-heads", "8"}).num_heads, 8);
  EXPECT_EQ(Good<UnloadOptions>({"weights", "unload", "a/b"}).checkpoint, "a/b");
  EXPECT_EQ(Good<DeleteOptions>({"weights", "delete", "a"}).version, 0);
  EXPECT_EQ(Good<DeleteOptions>({"weights", "delete", "a", "--version", "2"}).version, 2);
  EXPECT_EQ(Good<MakeDemoOptions>({"weights", "make-demo", "folder"}).directory, "folder");
}

TEST_F(WeightsOptionsTest, ReadsUploads) {
  const auto upload =
      Good<UploadOptions>({"weights", "upload", "a/ocr.npz", "--checkpoint", "shop/ocr", "--num-heads", "8"});
  EXPECT_EQ(upload.file, "a/ocr.npz");
  EXPECT_EQ(upload.checkpoint, "shop/ocr");
  EXPECT_EQ(upload.num_heads, 8);
  EXPECT_EQ(Good<UploadOptions>({"weights", "upload", "f"}).checkpoint, "");
  EXPECT_FALSE(Good({"weights", "upload", "f"}).server.timeout_given);
  EXPECT_TRUE(Good({"weights", "upload", "f", "--timeout", "1m"}).server.timeout_given);
}

TEST_F(WeightsOptionsTest, ReadsAliases) {
  const AliasChange set = Good<AliasOptions>({"weights", "alias", "set", "ocr", "stable", "3"}).change;
  EXPECT_EQ(set.checkpoint, "ocr");
  EXPECT_EQ(set.alias, "stable");
  EXPECT_EQ(set.version, 3);
  EXPECT_EQ(set.expected_version, std::nullopt);
  EXPECT_EQ(
      Good<AliasOptions>({"weights", "alias", "set", "ocr", "stable", "3", "--expect", "0"}).change.expected_version,
      0);
  const AliasChange remove =
      Good<AliasOptions>({"weights", "alias", "remove", "ocr", "stable", "--expect", "2"}).change;
  EXPECT_EQ(remove.alias, "stable");
  EXPECT_EQ(remove.version, 0);
  EXPECT_EQ(remove.expected_version, 2);
}

TEST_F(WeightsOptionsTest, ReadsVersionsAndAliases) {
  EXPECT_EQ(Good<AttendOptions>({"attend", "w", "--inputs-q", "[1]", "--version", "3"}).inputs.which.version, 3);
  EXPECT_EQ(Good<ExplainOptions>({"explain", "w", "--inputs-q", "[1]", "--alias", "a"}).inputs.which.alias, "a");
  EXPECT_EQ(Good<BenchOptions>({"bench", "w", "--alias", "canary"}).which.alias, "canary");
}

TEST_F(WeightsOptionsTest, RefusesContradictions) {
  const struct {
    std::vector<const char*> arguments;
    const char* text;
  } cases[] = {
      {{"weights", "show", "w", "--version", "1", "--alias", "a"}, "excludes --alias"},
      {{"attend", "--inputs-q", "[1]", "--num-heads", "1", "--axes", "length-heads", "--alias", "a"},
       "excludes --num-heads"},
      {{"explain", "--demo", "--alias", "a"}, "--public-question: cannot be combined with --alias"},
      {{"weights", "alias", "set", "c", "a", "0"}, "version: expected an integer of at least 1, got 0"},
      {{"weights", "alias", "set", "c", "a"}, "version is required"},
      {{"weights", "alias", "remove", "c", "a", "--expect", "-1"},
       "--expect: expected an integer of at least 0, got -1"},
      {{"weights", "delete", "c", "--version", "0"}, "--version: expected an integer of at least 1, got 0"},
      {{"weights", "upload"}, "file is required"},
  };
  for (const auto& line : cases) {
    const auto parsed = Parse(line.arguments);
    ASSERT_TRUE(std::holds_alternative<Usage>(parsed)) << line.text;
    EXPECT_EQ(std::get<Usage>(parsed).exit_code, kUsageError);
    EXPECT_THAT(std::get<Usage>(parsed).text, HasSubstr(line.text));
  }
}

}  // namespace
}  // namespace attention::cli
