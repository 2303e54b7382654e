// ONNX's own tests of its Attention operator, all of them as attention without projections.

#include "tests/testing/reference/reference_request.h"
#include "tests/testing/vectors/onnx_attention_case.h"
#include "tests/vectors/vector_checks.h"

namespace attention::test {
namespace {

constexpr char kFolder[] = "onnx-attention";

absl::StatusOr<OnnxAttentionCase> Read(const std::string& name) {
  auto file = OpenTensorFile(*VectorsFolder() / kFolder / (name + ".safetensors"));
  if (!file.ok()) return file.status();
  return ReadOnnxAttentionCase(*file, name);
}

void ExpectRight(const OnnxAttentionCase& onnx_case, const absl::StatusOr<AttendReply>& reply) {
  SCOPED_TRACE(onnx_case.name);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(onnx_case.output));
  EXPECT_EQ(reply->weight_set, "");
  EXPECT_EQ(reply->version, 0);
  if (!onnx_case.expected_line.has_value()) return;
  const Tensor* line = LineOf(onnx_case, *reply);
  ASSERT_NE(line, nullptr);
  EXPECT_THAT(*line, Near(*onnx_case.expected_line));
}

Tensor Float64s(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  return {DataType::kFloat64, shape,
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double))};
}

class OnnxAttentionVectorsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    auto started = VectorServers::Start({});
    ASSERT_THAT(started, IsOk());
    servers_ = new VectorServers(*std::move(started));
    for (const std::string& name : VectorFiles(kFolder, ".safetensors")) {
      auto read = Read(name);
      ASSERT_THAT(read, IsOk());
      cases_.push_back(*std::move(read));
    }
  }

  static void TearDownTestSuite() {
    delete servers_;
    servers_ = nullptr;
    cases_.clear();
  }

  // Sets index_ to the index in cases_ of the case under test.
  void SetUp() override {
    ASSERT_NE(servers_, nullptr);
    while (index_ < cases_.size() && cases_[index_].name != GetParam()) ++index_;
    ASSERT_LT(index_, cases_.size());
  }

  static VectorServers* servers_;
  static std::vector<OnnxAttentionCase> cases_;
  size_t index_ = 0;
};

VectorServers* OnnxAttentionVectorsTest::servers_ = nullptr;
std::vector<OnnxAttentionCase> OnnxAttentionVectorsTest::cases_;

TEST_P(OnnxAttentionVectorsTest, AnswersAlone) {
  ExpectRight(cases_[index_], servers_->plain->client().Attend(ClientRequest(cases_[index_].request)));
}

// The case and the seven that follow it: heads, layouts and masks of many kinds in one batch.
TEST_P(OnnxAttentionVectorsTest, AnswersInASharedBatch) {
  std::vector<v1::AttendRequest> requests;
  for (size_t i = 0; i < kInFlight; ++i) requests.push_back(cases_[(index_ + i) % cases_.size()].request);
  const auto replies = AttendTogether(servers_->sharing->client(), requests);
  for (size_t i = 0; i < replies.size(); ++i) {
    ExpectRight(cases_[(index_ + i) % cases_.size()], replies[i]);
    ASSERT_THAT(replies[i], IsOk());
    EXPECT_EQ(replies[i]->timing.batch_requests, kInFlight);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxAttentionVectorsTest);
INSTANTIATE_TEST_SUITE_P(Cases, OnnxAttentionVectorsTest, ::testing::ValuesIn(VectorFiles(kFolder, ".safetensors")),
                         [](const auto& info) { return info.param; });

TEST(OnnxAttentionVectorsDataTest, HasAllCases) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  EXPECT_EQ(VectorFiles(kFolder, ".safetensors").size(), 76u);
}

// Without a server: checks the reader of the cases and the reference implementation against ONNX.
TEST(OnnxAttentionVectorsDataTest, AgreesWithTheReference) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  for (const std::string& name : VectorFiles(kFolder, ".safetensors")) {
    SCOPED_TRACE(name);
    const auto onnx_case = Read(name);
    ASSERT_THAT(onnx_case, IsOk());
    const ReferenceOutputs got = ReferenceAnswer(onnx_case->request, nullptr);
    EXPECT_THAT(Float64s(onnx_case->output.shape, got.output), Near(onnx_case->output));
    if (!onnx_case->expected_line.has_value()) continue;
    const std::vector<double>* lines[] = {&got.scores, &got.capped_scores, &got.masked_scores, &got.attn_weights};
    EXPECT_THAT(Float64s(onnx_case->expected_line->shape, *lines[static_cast<int>(onnx_case->line)]),
                Near(*onnx_case->expected_line));
  }
}

}  // namespace
}  // namespace attention::test
