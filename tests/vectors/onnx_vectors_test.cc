// ONNX's own tests of its Attention operator, each as a whole layer.

#include "tests/vectors/vector_checks.h"

namespace attention::test {
namespace {

constexpr char kFolder[] = "onnx-attention-mha";

absl::StatusOr<TensorFile> Open(const std::string& name) {
  return OpenTensorFile(*VectorsFolder() / kFolder / (name + ".safetensors"));
}

class OnnxVectorsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    std::map<std::string, Parameters> checkpoints;
    for (const std::string& name : VectorFiles(kFolder, ".safetensors")) {
      auto file = Open(name);
      ASSERT_THAT(file, IsOk());
      checkpoints[name] = AllParameters(*file);
    }
    auto started = VectorServers::Start(checkpoints);
    ASSERT_THAT(started, IsOk());
    servers_ = new VectorServers(*std::move(started));
  }

  static void TearDownTestSuite() {
    delete servers_;
    servers_ = nullptr;
  }

  void SetUp() override {
    ASSERT_NE(servers_, nullptr);
    auto file = Open(GetParam());
    ASSERT_THAT(file, IsOk());
    auto read = ReadVectorCase(*file, "", GetParam());
    ASSERT_THAT(read, IsOk());
    case_ = *std::move(read);
  }

  static VectorServers* servers_;
  VectorCase case_;
};

VectorServers* OnnxVectorsTest::servers_ = nullptr;

TEST_P(OnnxVectorsTest, AnswersAlone) {
  ExpectRight(case_, servers_->plain->client().Attend(ClientRequest(case_.request)));
}

TEST_P(OnnxVectorsTest, AnswersInASharedBatch) {
  for (const auto& reply : AttendTogether(servers_->sharing->client(), RepeatTo(kInFlight, {case_.request}))) {
    ExpectRight(case_, reply);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->timing.batch_requests, kInFlight);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxVectorsTest);
INSTANTIATE_TEST_SUITE_P(Cases, OnnxVectorsTest, ::testing::ValuesIn(VectorFiles(kFolder, ".safetensors")),
                         [](const auto& info) { return info.param; });

TEST(OnnxVectorsDataTest, HasAllCases) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  EXPECT_EQ(VectorFiles(kFolder, ".safetensors").size(), 66u);
}

}  // namespace
}  // namespace attention::test
