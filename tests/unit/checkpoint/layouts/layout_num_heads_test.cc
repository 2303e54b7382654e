#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_checkpoint.h"

namespace attention::server {
namespace {

using ::attention::test::Checkpoint;
using ::attention::test::IsOk;
using ::attention::test::Ones;
using ::attention::test::OnesLayer;
using ::attention::test::Parameters;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::attention::test::operator+;
using Metadata = std::map<std::string, std::string>;

Parameters Layer(const std::string& path) {
  return {Ones(path + "q_proj.weight", {24, 2}), Ones(path + "k_proj.weight", {24, 2}),
          Ones(path + "v_proj.weight", {24, 2}), Ones(path + "o_proj.weight", {2, 24})};
}

struct Case {
  std::string name;
  std::string path;
  Metadata metadata;
  int64_t asked = 0;
  int64_t wanted = 0;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class NumHeadsTest : public ::testing::TestWithParam<Case> {};

TEST_P(NumHeadsTest, IsFound) {
  const Checkpoint checkpoint(Layer(GetParam().path), GetParam().metadata);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(GetParam().asked);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, GetParam().wanted);
  EXPECT_EQ(found->layers[0].shape.heads.head_dim, 24 / GetParam().wanted);
}

const Case kCases[] = {
    {"FromTheCall", "a.b.", {}, 3, 3},
    {"FromTheFile", "a.b.", {{"num_heads", "4"}}, 0, 4},
    {"FromThePathWithDots", "a.b.", {{"a.b.num_heads", "6"}}, 0, 6},
    {"FromThePathWithSlashes", "a.b.", {{"a/b/num_heads", "6"}}, 0, 6},
    {"FromThePathWithParams", "params/a/", {{"params/a/num_heads", "6"}}, 0, 6},
    {"FromThePathWithoutParams", "params/a/", {{"a/num_heads", "6"}}, 0, 6},
    {"FromTheFileOfARootLayer", "", {{"num_heads", "8"}}, 0, 8},
    {"ThePathBeatsTheFile", "a.b.", {{"num_heads", "4"}, {"a.b.num_heads", "6"}}, 0, 6},
    {"TheCallBeatsBoth", "a.b.", {{"num_heads", "4"}, {"a.b.num_heads", "6"}}, 12, 12},
    {"TheCallBeatsNonsense", "a.b.", {{"num_heads", "many"}}, 2, 2},
    {"OtherPathsDoNotMatter", "a.b.", {{"num_heads", "4"}, {"b.num_heads", "6"}, {"x_num_heads", "y"}}, 0, 4},
};

INSTANTIATE_TEST_SUITE_P(Places, NumHeadsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(NumHeadsTest, DiffersFromLayerToLayer) {
  const Checkpoint checkpoint(Layer("a.") + Layer("b."), {{"num_heads", "4"}, {"b.num_heads", "6"}});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find();
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->layers.size(), 2);
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, 4);
  EXPECT_EQ(found->layers[1].shape.heads.num_heads, 6);
}

TEST(NumHeadsTest, IsAskedForWithAllTheWaysToSayIt) {
  EXPECT_THAT(Checkpoint(Layer("a.b.")).Find(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "num_heads: wanted, because the shapes do not show the heads of a/b; give it with the call, or "
                       "as num_heads or a/b/num_heads in the metadata of the file"));
  EXPECT_THAT(Checkpoint(Layer("")).Find(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "num_heads: wanted, because the shapes do not show the heads of the layer; give it with the "
                       "call, or as num_heads in the metadata of the file"));
}

TEST(NumHeadsTest, IsANumberFromOne) {
  for (const std::string text : {"", "0", "-4", "4.0", "4 heads", "9223372036854775808"}) {
    EXPECT_THAT(Checkpoint(Layer("a."), {{"num_heads", text}}).Find(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "metadata num_heads: wanted a number of at least 1, found \"" + text + "\""));
  }
}

TEST(NumHeadsTest, IsNotLookedAtWhereTheShapesShowIt) {
  const Checkpoint checkpoint(ToParameters(OnesLayer(), "a/"), {{"num_heads", "many"}});
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(7);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, 1);
}

}  // namespace
}  // namespace attention::server
