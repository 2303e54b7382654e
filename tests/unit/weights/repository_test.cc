#include "server/weights/repository.h"

#include "tests/unit/weights/repository_fixture.h"

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

// Loads operator's files at the start and by LoadCheckpoint.
class RepositoryTest : public RepositoryFixture {};

TEST_F(RepositoryTest, LoadsEveryCheckpointAndSkipsBrokenOnes) {
  Write("ocr.safetensors", File({"layer0/", "layer1/"}));
  Write("shop/sign.v2.safetensors", File());
  Write("broken.safetensors", "not a safetensors file");
  Write("Upper.safetensors", File());
  Write("notes.txt", "no checkpoint");
  Write(".hidden.safetensors", File());
  Write("..data/ocr2.safetensors", File());
  const Repository::StartReport report = Start();
  EXPECT_EQ(report.loaded, 2);
  EXPECT_THAT(report.broken, ElementsAre(HasSubstr("Upper: checkpoint: expected a name"), HasSubstr("broken: ")));
  EXPECT_THAT(Served(), ElementsAre("ocr/layer0@1", "ocr/layer1@1", "shop/sign.v2@1"));
}

TEST_F(RepositoryTest, LoadsOneCheckpoint) {
  Start();
  test::Parameters parameters = ToParameters(OnesLayer(), "layer0/");
  parameters.push_back(test::FloatParameter("embedding", {1}, {1}));
  const std::string file = test::Serialize(parameters);
  Write("shop/ocr.safetensors", file);
  const absl::StatusOr<Published> loaded = repository_->LoadCheckpoint("shop/ocr");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->checkpoint, "shop/ocr");
  EXPECT_EQ(loaded->version, 1);
  EXPECT_EQ(loaded->sha256, DigestOf(file));
  EXPECT_EQ(loaded->format, "safetensors");
  EXPECT_FALSE(loaded->unchanged);
  EXPECT_THAT(loaded->unused_tensors, ElementsAre("embedding"));
  ASSERT_THAT(Describe(loaded->weight_sets), ElementsAre("shop/ocr/layer0@1"));
  const WeightSet& set = *loaded->weight_sets[0].weight_set;
  EXPECT_EQ(set.checkpoint, "shop/ocr");
  EXPECT_EQ(set.layout, "flax");
  EXPECT_EQ(set.layer->shape().heads.head_dim, 4);
  EXPECT_EQ(set.parameters[3].name, "value/kernel");
}

TEST_F(RepositoryTest, ServesNewContentAsTheNextVersion) {
  Write("ocr.safetensors", File({"a/", "b/"}));
  Start();
  Write("ocr.safetensors", File({"b/", "c/"}));
  EXPECT_EQ(repository_->LoadCheckpoint("ocr", {.replace = true})->version, 2);
  EXPECT_THAT(Served(), ElementsAre("ocr/b@2", "ocr/c@2"));
}

TEST_F(RepositoryTest, DoesNotLoadTheServedContentAgain) {
  Write("ocr.safetensors", File());
  Start();
  const WeightSetPtr before = *registry_->Find("ocr");
  const absl::StatusOr<Published> loaded = repository_->LoadCheckpoint("ocr");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_TRUE(loaded->unchanged);
  EXPECT_EQ(loaded->version, 1);
  // The same bytes in a new file, and in a file named as another format.
  Write("ocr.safetensors", File());
  EXPECT_TRUE(repository_->LoadCheckpoint("ocr")->unchanged);
  fs::rename(Path("weights/ocr.safetensors"), Path("weights/ocr.npz"));
  EXPECT_TRUE(repository_->LoadCheckpoint("ocr")->unchanged);
  EXPECT_EQ(*registry_->Find("ocr"), before);
}

TEST_F(RepositoryTest, ContinuesVersionNumbersAfterARestart) {
  Write("ocr.safetensors", File({""}, 1));
  Start();
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  Write("ocr.safetensors", File({""}, 2));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(RepositoryTest, LoadsAnOlderFileOfAnUploadedCheckpointOnlyByACall) {
  Write("ocr.safetensors", File({""}, 1));
  Start();
  ASSERT_THAT(UploadFile("ocr", File({""}, 2)), IsOk());
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@2")) << "the file became a version before";
  const absl::StatusOr<Published> loaded = repository_->LoadCheckpoint("ocr");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->version, 3);
  EXPECT_EQ(loaded->sha256, DigestOf(File({""}, 1)));
  EXPECT_THAT(Files(), ElementsAre(".attention/manifest.json", "ocr.safetensors"));
}

TEST_F(RepositoryTest, KeepsTheServedVersionIfALoadFails) {
  Write("ocr.safetensors", File());
  Start();
  const std::string file = File({""}, 2);
  Write("ocr.safetensors", file.substr(0, file.size() - 1));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("checkpoint ocr: "), Not(HasSubstr(outer_.path().string())))));
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
  Write("ocr.safetensors", file);
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2) << "the failed load used no number";
}

TEST_F(RepositoryTest, NamesTheParameterWithABadShape) {
  test::Parameters parameters = ToParameters(OnesLayer(), "layer0/");
  parameters[1].shape = {3, 2, 2};
  ASSERT_EQ(parameters[1].name, "layer0/key/kernel");
  Write("ocr.safetensors", test::Serialize(parameters));
  Start();
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "checkpoint ocr: layer0/key/kernel: expected shape [3, num_kv_heads, 4] with num_kv_heads a "
                       "divisor of 1 to match layer0/query/kernel [3, 1, 4], got shape [3, 2, 2]"));
}

TEST_F(RepositoryTest, RejectsTwoFilesOfOneName) {
  Write("ocr.safetensors", File({""}, 1));
  Write("ocr.npz", File({""}, 2));
  const std::string message =
      "checkpoint ocr: expected one file in the weights folder, got ocr.npz and ocr.safetensors";
  EXPECT_THAT(Start().broken, ElementsAre("ocr: " + message));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kInvalidArgument, message));
  fs::remove(Path("weights/ocr.npz"));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
}

TEST_F(RepositoryTest, ChecksTheNameAndTheHeads) {
  Write("ocr.safetensors", File());
  outer_.Write("secret.safetensors", File());
  Start();
  for (const std::string& name :
       {std::string("../secret"), std::string("a/../../secret"), Path("secret"), std::string(), std::string("OCR"),
        std::string("ocr\0", 4), std::string(1 << 20, 'a')}) {
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("checkpoint: expected a name"));
    EXPECT_THAT(repository_->LoadCheckpoint(name), refused);
    EXPECT_THAT(repository_->Unload(name), refused);
    EXPECT_THAT(repository_->Delete(name, 0), refused);
    EXPECT_THAT(repository_->SetAlias(name, "stable", 1), refused);
    EXPECT_THAT(repository_->BeginUpload({.checkpoint = name, .bytes = 1}), refused);
  }
  EXPECT_THAT(repository_->LoadCheckpoint("ocr", {.num_heads = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument, "num_heads: expected 0 or more, got -1"));
}

TEST_F(RepositoryTest, DoesNotServeARemovedFile) {
  Write("ocr.safetensors", File());
  Start();
  fs::remove(Path("weights/ocr.safetensors"));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  EXPECT_THAT(Served(), ElementsAre("ocr@1")) << "the loaded version stays";
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), IsEmpty());
  Write("ocr.safetensors", File());
  EXPECT_EQ(repository_->LoadCheckpoint("ocr")->version, 2);
}

TEST_F(RepositoryTest, RejectsMoreThanTheLimit) {
  Write("ocr.safetensors", File());
  options_.max_weight_bytes = kOnesBytes - 1;
  Start();
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("expected at most 207 bytes of weights, got 208; --max-weight-bytes is 207")));
  EXPECT_THAT(Served(), IsEmpty());
  options_.max_weight_bytes = kOnesBytes;
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

TEST_F(RepositoryTest, CountsOtherCheckpointsButNotTheReplacedVersionAgainstTheLimit) {
  options_.max_weight_bytes = 2 * kOnesBytes - 1;
  Start();
  Write("a.safetensors", File());
  Write("b.safetensors", File());
  ASSERT_THAT(repository_->LoadCheckpoint("a"), IsOk());
  EXPECT_THAT(
      repository_->LoadCheckpoint("b"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "checkpoint b: expected at most 207 bytes of weights, got 208; --max-weight-bytes is 415 and other "
               "weight sets take 208"));
  Write("a.safetensors", File({""}, 2));
  EXPECT_THAT(repository_->LoadCheckpoint("a"), IsOk());
  ASSERT_THAT(repository_->Unload("a"), IsOk());
  EXPECT_THAT(repository_->LoadCheckpoint("b"), IsOk());
}

TEST_F(RepositoryTest, RejectsANameOfAnotherCheckpoint) {
  Start();
  Write("a.safetensors", File({"b/"}));
  Write("a/b.safetensors", File());
  ASSERT_THAT(repository_->LoadCheckpoint("a/b"), IsOk());
  EXPECT_THAT(repository_->LoadCheckpoint("a"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a/b")));
  EXPECT_THAT(Served(), ElementsAre("a/b@1"));
  EXPECT_THAT(Start().broken, ElementsAre(HasSubstr("a: ")));
  EXPECT_THAT(Served(), ElementsAre("a/b@1")) << "the checkpoint that was served before comes first";
}

// The number of heads cannot be derived from these shapes.
TEST_F(RepositoryTest, RemembersNumHeadsOfTheCall) {
  const test::Parameters matrices = {test::FloatParameter("q_proj.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                     test::FloatParameter("k_proj.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                     test::FloatParameter("v_proj.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                     test::FloatParameter("o_proj.weight", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})};
  Write("ocr.safetensors", test::Serialize(matrices));
  EXPECT_THAT(Start().broken, ElementsAre(HasSubstr("num_heads")));
  ASSERT_THAT(repository_->LoadCheckpoint("ocr", {.num_heads = 2}), IsOk());
  EXPECT_EQ((*registry_->Find("ocr"))->layer->shape().heads.num_heads, 2);
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_EQ((*registry_->Find("ocr"))->layer->shape().heads.num_heads, 2);
  EXPECT_TRUE(repository_->LoadCheckpoint("ocr")->unchanged);
  EXPECT_TRUE(repository_->LoadCheckpoint("ocr", {.num_heads = 2})->unchanged);
  EXPECT_EQ(repository_->LoadCheckpoint("ocr", {.num_heads = 4})->version, 2) << "the same bytes make another layer";
  EXPECT_EQ((*registry_->Find("ocr"))->layer->shape().heads.num_heads, 4);
}

// Records the self-tests that it runs and returns a fixed result.
class FakeSelfTestRunner final : public SelfTestRunner {
 public:
  absl::Status Run(const SelfTestTensors& test, const Layer& layer) override {
    names.push_back(test.output->name + " " + ShapeString(test.output->shape));
    EXPECT_EQ(layer.shape().in_features, 3);
    return result;
  }

  std::vector<std::string> names;
  absl::Status result;
};

TEST_F(RepositoryTest, RunsSelfTestsBeforeItServes) {
  FakeSelfTestRunner runner;
  options_.self_test_runner = &runner;
  test::Parameters parameters = ToParameters(OnesLayer(), "a/");
  for (test::Parameter& parameter : ToParameters(OnesLayer(), "b/")) parameters.push_back(std::move(parameter));
  parameters.push_back(test::FloatParameter("b/self_test/inputs_q", {1, 3}, {1, 2, 3}));
  parameters.push_back(test::FloatParameter("b/self_test/output", {1, 4}, {6, 6, 6, 6}));
  Start();
  Write("ocr.safetensors", test::Serialize(parameters));
  runner.result = absl::FailedPreconditionError("output [0, 0]: expected 6, got 7");
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "checkpoint ocr: self-test of weight set ocr/b: output [0, 0]: expected 6, got 7"));
  EXPECT_THAT(Served(), IsEmpty());
  EXPECT_THAT(runner.names, ElementsAre("b/self_test/output [1, 4]")) << "layer a contains no self-test";
  runner.result = absl::OkStatus();
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr/a@1", "ocr/b@1"));
}

}  // namespace
}  // namespace attention::server
