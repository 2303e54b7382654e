// Two trained layers of a text recogniser, with the activations that it had while it read.

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
  std::vector<VectorCase> cases_;
};

TEST_P(RealVectorsTest, AnswersAlone) {
  for (const VectorCase& wanted : cases_) {
    ExpectRight(wanted, servers_.plain->client().Attend(ClientRequest(wanted.request)));
  }
}

// All six shapes and two of them again are one batch.
TEST_P(RealVectorsTest, AnswersInASharedBatch) {
  std::vector<v1::AttendRequest> requests;
  for (const VectorCase& wanted : cases_) requests.push_back(wanted.request);
  const auto replies = AttendTogether(servers_.sharing->client(), RepeatTo(kInFlight, requests));
  for (size_t i = 0; i < replies.size(); ++i) {
    ExpectRight(cases_[i % cases_.size()], replies[i]);
    ASSERT_THAT(replies[i], IsOk());
    EXPECT_EQ(replies[i]->timing.batch_requests, kInFlight);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, RealVectorsTest, ::testing::ValuesIn(kLayers),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace attention::test
