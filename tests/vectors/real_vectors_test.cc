// Two trained layers of a text recogniser, with activations recorded while it read text.

#include "server/checkpoint/layouts/layers.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/vectors/vector_checks.h"

namespace attention::test {
namespace {

constexpr const char* kLayers[] = {"layer0", "layer1"};
constexpr const char* kCases[] = {"line0", "line3", "batch", "ragged", "causal", "cross"};

class RealVectorsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto folder = VectorsFolder();
    if (!folder.has_value()) GTEST_SKIP() << kNoVectors;
    auto weights = OpenTensorFile(*folder / "real" / "ppocrv4-rec.weights.safetensors");
    ASSERT_THAT(weights, IsOk());
    auto layers = server::FindLayers("ocr", weights->tensors);
    ASSERT_THAT(layers, IsOk());
    for (const server::LayerTensors& layer : layers->layers) {
      if (layer.name == std::string("ocr/") + GetParam()) layer_ = server::ReadParameters(layer);
    }
    auto servers = VectorServers::Start({{"ocr", AllParameters(*weights)}});
    ASSERT_THAT(servers, IsOk());
    servers_ = *std::move(servers);

    auto file = OpenTensorFile(*folder / "real" / "ppocrv4-rec.cases.safetensors");
    ASSERT_THAT(file, IsOk());
    for (const char* name : kCases) {
      auto read = ReadVectorCase(*file, std::string(GetParam()) + "." + name, std::string("ocr/") + GetParam());
      ASSERT_THAT(read, IsOk());
      cases_.push_back(*std::move(read));
    }
    ASSERT_TRUE(cases_[0].attn_weights.has_value());
    ASSERT_FALSE(cases_[3].outputs[0].rows.empty());
  }

  VectorServers servers_;
  server::LayerParameters layer_;
  std::vector<VectorCase> cases_;
};

TEST_P(RealVectorsTest, AnswersAlone) {
  for (const VectorCase& vector_case : cases_) {
    ExpectRight(vector_case, servers_.plain->client().Attend(ClientRequest(vector_case.request)));
  }
}

// All six shapes, two of them twice, in one batch.
TEST_P(RealVectorsTest, AnswersInASharedBatch) {
  std::vector<v1::AttendRequest> requests;
  for (const VectorCase& vector_case : cases_) requests.push_back(vector_case.request);
  const auto replies = AttendTogether(servers_.sharing->client(), RepeatTo(kInFlight, requests));
  for (size_t i = 0; i < replies.size(); ++i) {
    ExpectRight(cases_[i % cases_.size()], replies[i]);
    ASSERT_THAT(replies[i], IsOk());
    EXPECT_EQ(replies[i]->timing.batch_requests, kInFlight);
  }
}

// Rounding the operands to three digits changes the outputs of these layers, which reach 4.4, by up to 0.029 even in
// exact arithmetic. The answer differs from that result only where a value lies halfway between two bfloat16 numbers.
TEST_P(RealVectorsTest, AnswersInBFloat16AsRoundedOperandsDo) {
  for (VectorCase& vector_case : cases_) {
    vector_case.request.mutable_options()->set_compute_dtype(v1::DATA_TYPE_BFLOAT16);
    for (Expected& output : vector_case.outputs) output.abs_tolerance = 4e-2;
    if (vector_case.attn_weights.has_value()) vector_case.attn_weights->abs_tolerance = 4e-2;
    const auto reply = servers_.plain->client().Attend(ClientRequest(vector_case.request));
    ExpectRight(vector_case, reply);
    ASSERT_THAT(reply, IsOk());
    SCOPED_TRACE(vector_case.name);
    ExpectAnswer(vector_case.request, &layer_, *reply, {.abs = 4e-3, .rel = 0});
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, RealVectorsTest, ::testing::ValuesIn(kLayers),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace attention::test
