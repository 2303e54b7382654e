#include "server/weights/weights_folder.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/testing/matchers.h"
#include "tests/testing/temporary_folder.h"
#include "tests/testing/weights.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::OnesLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr int64_t kOnesBytes = 4 * (3 * 12 + 16);

// A file with the public question's layer at each of those paths: "", "layer0/".
std::string File(const std::vector<std::string>& paths) {
  test::Parameters parameters;
  for (const std::string& path : paths) {
    for (test::Parameter& parameter : ToParameters(OnesLayer(), path)) parameters.push_back(std::move(parameter));
  }
  return test::Serialize(parameters);
}

class WeightsFolderTest : public ::testing::Test {
 protected:
  WeightsFolder Folder(int64_t max_weight_bytes = std::numeric_limits<int64_t>::max()) {
    return WeightsFolder(Path("weights"), {.max_weight_bytes = max_weight_bytes}, &registry_);
  }

  std::string Path(const std::string& name) const { return (outer_.path() / name).string(); }

  std::vector<std::string> Served() const {
    std::vector<std::string> names;
    for (const WeightSetPtr& set : registry_.List()) names.push_back(set->name + "@" + std::to_string(set->version));
    return names;
  }

  Registry registry_;
  test::TemporaryFolder outer_;  // holds "weights", and room beside it
};

TEST_F(WeightsFolderTest, LoadsEveryCheckpointAndSkipsBrokenOnes) {
  outer_.Write("weights/ocr.safetensors", File({"layer0/", "layer1/"}));
  outer_.Write("weights/shop/sign.v2.safetensors", File({""}));
  outer_.Write("weights/broken.safetensors", "not a safetensors file");
  outer_.Write("weights/Upper.safetensors", File({""}));
  outer_.Write("weights/notes.txt", "no checkpoint");
  outer_.Write("weights/.hidden.safetensors", File({""}));
  outer_.Write("weights/..data/ocr2.safetensors", File({""}));
  const absl::StatusOr<WeightsFolder::Counts> counts = Folder().LoadAll();
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->loaded, 2);
  EXPECT_EQ(counts->broken, 2);
  EXPECT_THAT(Served(), ElementsAre("ocr/layer0@1", "ocr/layer1@1", "shop/sign.v2@1"));
}

TEST_F(WeightsFolderTest, TakesAFolderWithASlashBehindIt) {
  outer_.Write("weights/ocr.safetensors", File({""}));
  const absl::StatusOr<WeightsFolder::Counts> counts = WeightsFolder(Path("weights/"), {}, &registry_).LoadAll();
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->loaded, 1);
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

TEST_F(WeightsFolderTest, HasNothingWithoutAFolder) {
  WeightsFolder folder("", {}, &registry_);
  const absl::StatusOr<WeightsFolder::Counts> counts = folder.LoadAll();
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->loaded + counts->broken, 0);
  EXPECT_THAT(folder.LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ocr")));
}

TEST_F(WeightsFolderTest, RefusesAFolderThatIsNotThere) {
  EXPECT_THAT(Folder().LoadAll(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot be read")));
}

TEST_F(WeightsFolderTest, LoadsOneCheckpoint) {
  test::Parameters parameters = ToParameters(OnesLayer(), "layer0/");
  parameters.push_back(test::FloatParameter("embedding", {1}, {1}));
  outer_.Write("weights/shop/ocr.safetensors", test::Serialize(parameters));
  const absl::StatusOr<WeightsFolder::Loaded> loaded = Folder().LoadCheckpoint("shop/ocr");
  ASSERT_THAT(loaded, IsOk());
  ASSERT_THAT(loaded->weight_sets, ::testing::SizeIs(1));
  const WeightSet& set = *loaded->weight_sets[0];
  EXPECT_EQ(set.name, "shop/ocr/layer0");
  EXPECT_EQ(set.checkpoint, "shop/ocr");
  EXPECT_EQ(set.layer->shape().heads.head_dim, 4);
  EXPECT_EQ(set.parameters[3].name, "value/kernel");
  EXPECT_THAT(loaded->unused_tensors, ElementsAre("embedding"));
}

TEST_F(WeightsFolderTest, ReplacesWhatTheCheckpointHad) {
  outer_.Write("weights/ocr.safetensors", File({"a/", "b/"}));
  WeightsFolder folder = WeightsFolder(Path("weights"), {}, &registry_);
  ASSERT_THAT(folder.LoadCheckpoint("ocr"), IsOk());
  outer_.Write("weights/ocr.safetensors", File({"b/", "c/"}));
  ASSERT_THAT(folder.LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr/b@2", "ocr/c@1"));
}

TEST_F(WeightsFolderTest, KeepsWhatItHasIfALoadFails) {
  outer_.Write("weights/ocr.safetensors", File({""}));
  WeightsFolder folder(Path("weights"), {}, &registry_);
  ASSERT_THAT(folder.LoadCheckpoint("ocr"), IsOk());
  const std::string file = File({""});
  outer_.Write("weights/ocr.safetensors", file.substr(0, file.size() - 1));
  EXPECT_THAT(folder.LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("checkpoint ocr: "), Not(HasSubstr(outer_.path().string())))));
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

TEST_F(WeightsFolderTest, SaysWhichParameterIsWrong) {
  test::Parameters parameters = ToParameters(OnesLayer(), "layer0/");
  parameters[1].shape = {3, 2, 2};
  ASSERT_EQ(parameters[1].name, "layer0/key/kernel");
  outer_.Write("weights/ocr.safetensors", test::Serialize(parameters));
  EXPECT_THAT(Folder().LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "checkpoint ocr: layer0/key/kernel: shape [3, 2, 2], wanted [3, num_kv_heads, 4], "
                       "num_kv_heads a divisor of 1, to go with layer0/query/kernel [3, 1, 4]"));
}

TEST_F(WeightsFolderTest, ChecksTheName) {
  outer_.Write("weights/ocr.safetensors", File({""}));
  outer_.Write("secret.safetensors", File({""}));
  for (const std::string& name :
       {std::string("../secret"), std::string("a/../../secret"), Path("secret"), std::string(), std::string("OCR"),
        std::string("ocr\0", 4), std::string(1 << 20, 'a')}) {
    EXPECT_THAT(Folder().LoadCheckpoint(name),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("checkpoint: wanted a name")));
  }
}

// One text for all of them, so that nobody can find out what lies outside.
TEST_F(WeightsFolderTest, FindsNothingOutside) {
  outer_.Write("secret.safetensors", File({""}));
  outer_.Write("outside/secret.safetensors", File({""}));
  outer_.Write("weights-too/secret.safetensors", File({""}));
  fs::create_directories(Path("weights/folder.safetensors"));
  fs::create_symlink(Path("secret.safetensors"), Path("weights/link.safetensors"));
  fs::create_symlink("../secret.safetensors", Path("weights/relative.safetensors"));
  fs::create_symlink(Path("weights-too/secret.safetensors"), Path("weights/beside.safetensors"));
  fs::create_symlink("nowhere", Path("weights/dangling.safetensors"));
  fs::create_symlink("loop.safetensors", Path("weights/loop.safetensors"));
  fs::create_directory_symlink(Path("outside"), Path("weights/outside"));
  outer_.Write("weights/sub/.hidden.safetensors", File({""}));
  for (const std::string name : {"missing", "folder", "link", "relative", "beside", "dangling", "loop",
                                 "outside/secret", "outside/missing", "sub/.hidden"}) {
    EXPECT_THAT(
        Folder().LoadCheckpoint(name),
        StatusIs(absl::StatusCode::kNotFound, "checkpoint: the weights folder has no " + name + ".safetensors"));
  }
  const absl::StatusOr<WeightsFolder::Counts> counts = Folder().LoadAll();
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->loaded, 0);
  EXPECT_THAT(Served(), IsEmpty());
}

TEST_F(WeightsFolderTest, FollowsLinksThatStayInside) {
  outer_.Write("weights/..data/v1.safetensors", File({""}));
  fs::create_symlink("..data/v1.safetensors", Path("weights/ocr.safetensors"));
  const absl::StatusOr<WeightsFolder::Counts> counts = Folder().LoadAll();
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->loaded, 1);
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

TEST_F(WeightsFolderTest, RefusesMoreThanTheLimit) {
  outer_.Write("weights/ocr.safetensors", File({""}));
  EXPECT_THAT(Folder(kOnesBytes - 1).LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("takes 208 bytes"), HasSubstr("--max-weight-bytes is 207"))));
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(Folder(kOnesBytes).LoadCheckpoint("ocr"), IsOk());
}

TEST_F(WeightsFolderTest, CountsOtherCheckpointsAgainstTheLimit) {
  outer_.Write("weights/a.safetensors", File({""}));
  outer_.Write("weights/b.safetensors", File({""}));
  ASSERT_THAT(Folder().LoadCheckpoint("a"), IsOk());
  EXPECT_THAT(
      Folder(2 * kOnesBytes - 1).LoadCheckpoint("b"),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("takes 208 bytes beside the 208 that others take")));
  EXPECT_THAT(Folder(2 * kOnesBytes - 1).LoadCheckpoint("a"), IsOk());
  EXPECT_THAT(Folder(2 * kOnesBytes).LoadCheckpoint("b"), IsOk());
}

TEST_F(WeightsFolderTest, RefusesANameOfAnotherCheckpoint) {
  outer_.Write("weights/a.safetensors", File({"b/"}));
  outer_.Write("weights/a/b.safetensors", File({""}));
  ASSERT_THAT(Folder().LoadCheckpoint("a"), IsOk());
  EXPECT_THAT(Folder().LoadCheckpoint("a/b"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a/b")));
  EXPECT_THAT(Served(), ElementsAre("a/b@1"));
}

}  // namespace
}  // namespace attention::server
