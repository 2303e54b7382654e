// WeightService over a socket: list, describe, load, unload, and their effect on running calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// OnesLayer with its value kernel doubled and its out kernel divided by four: half of its answers. A mixture of the two
// layers would give 8 or 1.
server::LayerParameters HalfLayer() {
  server::LayerParameters layer = OnesLayer();
  for (float& number : layer.value_kernel) number *= 2;
  for (float& number : layer.out_kernel) number /= 4;
  return layer;
}

Expected HalfAnswer() { return {{1, 2, 4}, std::vector<double>(8, 1.99876369), 1e-6, 0}; }

Parameters Joined(Parameters some, const Parameters& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

std::vector<std::string> Names(const std::vector<WeightSetInfo>& weight_sets) {
  std::vector<std::string> names;
  for (const WeightSetInfo& info : weight_sets) names.push_back(info.name);
  return names;
}

class WeightServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints =
                                             {
                                                 {"ones", ToParameters(OnesLayer())},
                                                 {"ocr", Joined(ToParameters(OnesLayer(), "layer0/"),
                                                                Joined(ToParameters(HalfLayer(), "layer1/"),
                                                                       {FloatParameter("embedding", {2}, {1, 2})}))},
                                             },
                                         .gate = &gate_});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  const Client& client() const { return running_->client(); }

  absl::StatusOr<AttendReply> Attend(const std::string& weight_set) const {
    return client().Attend(ClientRequest(QuestionRequest(weight_set)));
  }

  Gate gate_;
  std::unique_ptr<RunningServer> running_;
};

TEST_F(WeightServiceTest, ServesEveryLayerOfTheFolderAtTheStart) {
  const auto listed = client().ListWeightSets();
  ASSERT_THAT(listed, IsOk());
  EXPECT_THAT(Names(*listed), ElementsAre("ocr/layer0", "ocr/layer1", "ones"));
  EXPECT_THAT(Attend("ocr/layer0")->output, Near(QuestionAnswer()));
  EXPECT_THAT(Attend("ocr/layer1")->output, Near(HalfAnswer()));
}

TEST_F(WeightServiceTest, DescribesAWeightSet) {
  const auto info = client().GetWeightSet("ocr/layer0");
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->name, "ocr/layer0");
  EXPECT_EQ(info->version, 1);
  EXPECT_EQ(info->checkpoint, "ocr");
  EXPECT_EQ(info->in_features, 3);
  EXPECT_EQ(info->in_k_features, 3);
  EXPECT_EQ(info->in_v_features, 3);
  EXPECT_EQ(info->num_heads, 1);
  EXPECT_EQ(info->num_kv_heads, 1);
  EXPECT_EQ(info->head_dim, 4);
  EXPECT_EQ(info->value_head_dim, 4);
  EXPECT_EQ(info->out_features, 4);
  EXPECT_FALSE(info->normalize_qk);
  EXPECT_EQ(info->layout, "flax");
  // At least three kernels of 12 numbers and one of 16.
  EXPECT_GE(info->bytes, 4 * (3 * 12 + 16));
  std::vector<std::string> parameters;
  for (const ParameterInfo& p : info->parameters) {
    parameters.push_back(p.name + " " + p.dtype + " " + server::ShapeString(p.shape));
  }
  EXPECT_THAT(parameters, ElementsAre("key/kernel float32 [3, 1, 4]", "out/kernel float32 [1, 4, 4]",
                                      "query/kernel float32 [3, 1, 4]", "value/kernel float32 [3, 1, 4]"));
}

TEST_F(WeightServiceTest, DescribesGroupedHeadsAndLayerNorm) {
  ASSERT_THAT(running_->Load("grouped", ToParameters(WithLayerNorm(RandomLayer({3, 4, 5, {6, 2, 7, 8}, 9}, 1), 2))),
              IsOk());
  const auto info = client().GetWeightSet("grouped");
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->in_k_features, 4);
  EXPECT_EQ(info->in_v_features, 5);
  EXPECT_EQ(info->num_heads, 6);
  EXPECT_EQ(info->num_kv_heads, 2);
  EXPECT_EQ(info->head_dim, 7);
  EXPECT_EQ(info->value_head_dim, 8);
  EXPECT_EQ(info->out_features, 9);
  EXPECT_TRUE(info->normalize_qk);
}

TEST_F(WeightServiceTest, LoadsACheckpointThatWasAddedLater) {
  running_->weights_folder().Write("shop/late.safetensors",
                                   Serialize(Joined(ToParameters(HalfLayer()), {FloatParameter("step", {1}, {7})})));
  const auto loaded = client().LoadCheckpoint("shop/late");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(Names(loaded->weight_sets), ElementsAre("shop/late"));
  EXPECT_THAT(loaded->unused_tensors, ElementsAre("step"));
  EXPECT_THAT(Attend("shop/late")->output, Near(HalfAnswer()));
}

TEST_F(WeightServiceTest, CountsTheVersionsOfACheckpoint) {
  ASSERT_THAT(running_->Load("ones", ToParameters(HalfLayer())), IsOk());
  auto reply = Attend("ones");
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->version, 2);
  EXPECT_EQ(reply->weight_set, "ones");
  EXPECT_THAT(reply->output, Near(HalfAnswer()));
  EXPECT_THAT(client().Unload("ones"),
              ::testing::AllOf(IsOk(), ::testing::ResultOf([](const auto& v) { return *v; }, 2)));
  ASSERT_THAT(running_->Load("ones", ToParameters(OnesLayer())), IsOk());
  EXPECT_EQ(client().GetWeightSet("ones")->version, 3);
}

TEST_F(WeightServiceTest, DoesNotLoadAnUnchangedFileAgain) {
  const auto again = client().LoadCheckpoint("ocr");
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->unchanged);
  EXPECT_EQ(again->version, 1);
  EXPECT_EQ(again->format, "safetensors");
  EXPECT_EQ(again->sha256.size(), 64u);
  EXPECT_THAT(Names(again->weight_sets), ElementsAre("ocr/layer0", "ocr/layer1"));
  EXPECT_THAT(again->unused_tensors, ElementsAre("embedding"));
}

TEST_F(WeightServiceTest, UnloadsACheckpointAndKeepsItsFile) {
  ASSERT_THAT(client().Unload("ocr"), IsOk());
  for (const char* name : {"ocr/layer0", "ocr/layer1"}) {
    EXPECT_THAT(Attend(name), StatusIs(absl::StatusCode::kNotFound, HasSubstr(name)));
  }
  EXPECT_THAT(Attend("ones"), IsOk());
  EXPECT_THAT(client().LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Attend("ocr/layer0")->output, Near(QuestionAnswer()));
}

// A running call finishes with the parameters that it started with; the next call uses the new ones.
TEST_F(WeightServiceTest, ReplacesUnderARunningCall) {
  gate_.Close();
  auto running_call = client().AttendFuture(ClientRequest(QuestionRequest("ones")));
  gate_.AwaitHeld();
  ASSERT_THAT(running_->Load("ones", ToParameters(HalfLayer())), IsOk());
  gate_.Open();
  const auto old_reply = running_call.get();
  ASSERT_THAT(old_reply, IsOk());
  EXPECT_EQ(old_reply->version, 1);
  EXPECT_THAT(old_reply->output, Near(QuestionAnswer()));
  EXPECT_THAT(Attend("ones")->output, Near(HalfAnswer()));
}

TEST_F(WeightServiceTest, UnloadsUnderARunningCall) {
  gate_.Close();
  auto running_call = client().AttendFuture(ClientRequest(QuestionRequest("ones")));
  gate_.AwaitHeld();
  ASSERT_THAT(client().Unload("ones"), IsOk());
  EXPECT_THAT(Attend("ones"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ones")));
  gate_.Open();
  const auto reply = running_call.get();
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(reply->output, Near(QuestionAnswer()));
}

TEST_F(WeightServiceTest, KeepsTheServedVersionWhenALoadFails) {
  running_->weights_folder().Write("ones.safetensors", "no checkpoint at all");
  EXPECT_THAT(client().LoadCheckpoint("ones"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ones")));
  Parameters wrong = ToParameters(OnesLayer());
  wrong[0] = FloatParameter("query/kernel", {3, 2, 2}, std::vector<float>(12, 1));
  EXPECT_THAT(running_->Load("ones", wrong),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::ContainsRegex("kernel.*\\[3, ., .\\]")));
  EXPECT_EQ(client().GetWeightSet("ones")->version, 1);
  EXPECT_THAT(Attend("ones")->output, Near(QuestionAnswer()));
}

TEST_F(WeightServiceTest, NamesWhatIsNotFound) {
  using absl::StatusCode;
  EXPECT_THAT(client().GetWeightSet("nobody"), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(client().Unload("nobody"), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(client().LoadCheckpoint("nobody"), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
}

}  // namespace
}  // namespace attention::test
