#include <gmock/gmock.h>

#include "tests/testing/matchers.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"

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
using ::testing::ElementsAre;

// One layer of each layout.
Parameters Layers() {
  return ToParameters(OnesLayer(), "flax/") +
         Parameters{Ones("torch.in_proj_weight", {6, 2}),   Ones("torch.out_proj.weight", {2, 2}),
                    Ones("bert.self.query.weight", {2, 2}), Ones("bert.self.key.weight", {2, 2}),
                    Ones("bert.self.value.weight", {2, 2}), Ones("bert.output.dense.weight", {2, 2}),
                    Ones("llama.q_proj.weight", {2, 2}),    Ones("llama.k_proj.weight", {2, 2}),
                    Ones("llama.v_proj.weight", {2, 2}),    Ones("llama.o_proj.weight", {2, 2})};
}

struct Case {
  std::string name;
  std::string tensor;
  std::string kind;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ForeignTensorsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ForeignTensorsTest, RefusesTheTensor) {
  const Checkpoint checkpoint(Layers() + Parameters{Ones(GetParam().tensor, {2})});
  EXPECT_THAT(checkpoint.Find(1), StatusIs(absl::StatusCode::kUnimplemented,
                                           GetParam().tensor + ": " + GetParam().kind +
                                               ", which changes the output of the layer, is not supported"));
}

constexpr char kNorm[] = "a norm other than flax's query_ln and key_ln";
constexpr char kPositions[] = "a position-dependent part of the scores";
constexpr char kKeys[] = "an additional key or value";
constexpr char kOther[] = "a scale, a gate or a further projection";
constexpr char kAdapter[] = "an adapter (merge it into the weights first)";

const Case kCases[] = {
    {"Qwen3Norm", "llama.q_norm.weight", kNorm},
    {"KeyNormOfFlax", "flax/key_norm/scale", kNorm},
    {"FlaxNormInAnotherLayout", "torch.query_ln.scale", kNorm},
    {"RelativeBias", "llama.relative_attention_bias.weight", kPositions},
    {"BertRelativeKeys", "bert.self.distance_embedding.weight", kPositions},
    {"Swin", "bert.self.relative_position_bias_table", kPositions},
    {"AddBiasKv", "torch.bias_k", kKeys},
    {"Sinks", "llama.sinks", kKeys},
    {"SwinV2", "bert.self.logit_scale", kOther},
    {"Longformer", "bert.self.query_global.weight", kOther},
    {"Lora", "llama.q_proj.lora_A.default.weight", kAdapter},
    {"LoraOfBert", "bert.self.query.lora_B.weight", kAdapter},
};

INSTANTIATE_TEST_SUITE_P(Names, ForeignTensorsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(ForeignTensorsTest, RefusesTensorsBesideALayerAtTheRoot) {
  const Checkpoint checkpoint({Ones("in_proj_weight", {6, 2}), Ones("out_proj.weight", {2, 2}), Ones("bias_v", {2})});
  EXPECT_THAT(checkpoint.Find(1),
              StatusIs(absl::StatusCode::kUnimplemented, ::testing::StartsWith("bias_v: an additional key")));
}

TEST(ForeignTensorsTest, IgnoresTensorsOutsideOfALayerAndHarmlessOnes) {
  const Parameters others = {Ones("decoder.q_norm.weight", {2}),
                             Ones("llama.attention.q_norm.weight", {2}),
                             Ones("llama.rotary_emb.inv_freq", {2}),
                             Ones("llama.bias", {2}),
                             Ones("llama.masked_bias", {2}),
                             Ones("sinks", {2}),
                             Ones("flax/mlp/lora_a", {2}),
                             Ones("llama.q_normal", {2}),
                             Ones(std::string(1000, '/') + "q_norm", {2})};
  const Checkpoint checkpoint(Layers() + others);
  const absl::StatusOr<CheckpointLayers> found = checkpoint.Find(1);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->unused_tensors.size(), others.size());
}

}  // namespace
}  // namespace attention::server
