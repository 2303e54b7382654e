// Heads: their axes in the inputs, grouped heads, and a value_head_dim other than head_dim.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/random_masks.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/reference/reference_request.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Sizes = std::vector<int64_t>;

// Transposes [batch, first, second, width] to [batch, second, first, width].
std::vector<float> ExchangeAxes(const std::vector<float>& numbers, const Sizes& sizes) {
  const std::vector<double> exchanged =
      ToLayout({numbers.begin(), numbers.end()}, sizes, v1::HeadLayout::AXES_HEADS_LENGTH);
  return {exchanged.begin(), exchanged.end()};
}

// Repeats each head of [rows, heads, width] `times` times in a row.
std::vector<float> RepeatHeads(const std::vector<float>& numbers, int64_t width, int64_t times) {
  std::vector<float> result;
  for (auto head = numbers.begin(); head != numbers.end(); head += width) {
    for (int64_t i = 0; i < times; ++i) result.insert(result.end(), head, head + width);
  }
  return result;
}

constexpr int64_t kBatch = 2;
constexpr int64_t kQLength = 70;
constexpr int64_t kKvLength = 90;

class HeadPropertiesTest : public ::testing::Test {
 protected:
  void Start(const std::map<std::string, Parameters>& checkpoints = {}) {
    auto running = RunningServer::Start({.checkpoints = checkpoints});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  AttendReply Attend(const v1::AttendRequest& request) {
    auto reply = running_->client().Attend(ClientRequest(request));
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : AttendReply();
  }

  // A request with AXES_LENGTH_HEADS and several parts of a mask.
  v1::AttendRequest Draw(const server::HeadShape& heads) {
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(heads.num_heads);
    request.mutable_heads()->set_num_kv_heads(heads.num_kv_heads);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
    *request.mutable_inputs_q() = DrawTensor({kBatch, kQLength, heads.num_heads, heads.head_dim});
    *request.mutable_inputs_k() = DrawTensor({kBatch, kKvLength, heads.num_kv_heads, heads.head_dim});
    *request.mutable_inputs_v() = DrawTensor({kBatch, kKvLength, heads.num_kv_heads, heads.value_head_dim});
    for (MaskPart part : {MaskPart::kDense, MaskPart::kWindowBottomRight, MaskPart::kBias}) {
      AddMaskPart(part, heads, random_, request);
    }
    return request;
  }

  v1::Tensor DrawTensor(const Sizes& shape) {
    return WireFloats(shape, DrawNumbers(*server::ElementCount(shape), random_));
  }

  std::unique_ptr<RunningServer> running_;
  std::mt19937 random_{11};
};

// The elements of a tensor in another layout.
v1::Tensor InLayout(const v1::Tensor& tensor, v1::HeadLayout::Axes axes) {
  const Sizes sizes(tensor.shape().begin(), tensor.shape().end());
  const std::vector<float> numbers = ClientTensor(tensor).Floats();
  if (axes == v1::HeadLayout::AXES_LENGTH_FEATURES)
    return WireFloats({sizes[0], sizes[1], sizes[2] * sizes[3]}, numbers);
  return WireFloats({sizes[0], sizes[2], sizes[1], sizes[3]}, ExchangeAxes(numbers, sizes));
}

TEST_F(HeadPropertiesTest, EveryLayoutGivesTheSameBits) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const server::HeadShape heads = {4, 2, 6, 10};
  v1::AttendRequest request = Draw(heads);
  AskForEverything(heads, request);
  const AttendReply expected = Attend(request);
  ExpectAnswer(request, nullptr, expected);
  for (const auto axes : {v1::HeadLayout::AXES_LENGTH_FEATURES, v1::HeadLayout::AXES_HEADS_LENGTH}) {
    v1::AttendRequest other = request;
    other.mutable_heads()->set_axes(axes);
    for (v1::Tensor* inputs : {other.mutable_inputs_q(), other.mutable_inputs_k(), other.mutable_inputs_v()}) {
      *inputs = InLayout(*inputs, axes);
    }
    const AttendReply reply = Attend(other);
    const v1::Tensor output = InLayout(WireFloats(expected.output.shape, expected.output.Floats()), axes);
    EXPECT_THAT(reply.output, SameBits(ClientTensor(output)));
    EXPECT_THAT(*reply.attn_weights, SameBits(*expected.attn_weights));
    EXPECT_THAT(*reply.log_sum_exp, SameBits(*expected.log_sum_exp));
    EXPECT_THAT(reply.intermediates->context, SameBits(expected.intermediates->context));
  }
}

// Grouped heads are equivalent to repeated ones.
TEST_F(HeadPropertiesTest, GroupedHeadsEqualRepeatedHeads) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const server::HeadShape& heads : {server::HeadShape{6, 2, 8, 4}, server::HeadShape{5, 1, 3, 7}}) {
    const v1::AttendRequest grouped = Draw(heads);
    v1::AttendRequest repeated = grouped;
    repeated.mutable_heads()->set_num_kv_heads(heads.num_heads);
    const int64_t times = heads.num_heads / heads.num_kv_heads;
    for (v1::Tensor* inputs : {repeated.mutable_inputs_k(), repeated.mutable_inputs_v()}) {
      Sizes shape(inputs->shape().begin(), inputs->shape().end());
      shape[2] = heads.num_heads;
      *inputs = WireFloats(shape, RepeatHeads(ClientTensor(*inputs).Floats(), shape[3], times));
    }
    const Tensor expected = Attend(repeated).output;
    EXPECT_THAT(Attend(grouped).output, Near(Expected{expected.shape, Values(expected), 1e-6, 1e-6}));
  }
}

TEST_F(HeadPropertiesTest, AGroupedLayerEqualsOneWithRepeatedKernels) {
  server::LayerParameters grouped = WithLayerNorm(RandomLayer({10, 12, 14, {6, 2, 4, 5}, 8}, 1), 2);
  server::LayerParameters repeated = grouped;
  repeated.shape.heads.num_kv_heads = 6;
  repeated.key_kernel = RepeatHeads(grouped.key_kernel, 4, 3);
  repeated.key_bias = RepeatHeads(grouped.key_bias, 4, 3);
  repeated.value_kernel = RepeatHeads(grouped.value_kernel, 5, 3);
  repeated.value_bias = RepeatHeads(grouped.value_bias, 5, 3);
  ASSERT_NO_FATAL_FAILURE(Start({{"grouped", ToParameters(grouped)}, {"repeated", ToParameters(repeated)}}));
  v1::AttendRequest request;
  request.set_weight_set("repeated");
  *request.mutable_inputs_q() = DrawTensor({kBatch, kQLength, 10});
  *request.mutable_inputs_k() = DrawTensor({kBatch, kKvLength, 12});
  *request.mutable_inputs_v() = DrawTensor({kBatch, kKvLength, 14});
  const Tensor expected = Attend(request).output;
  request.set_weight_set("grouped");
  EXPECT_THAT(Attend(request).output, Near(Expected{expected.shape, Values(expected), 2e-6, 2e-6}));
}

TEST_F(HeadPropertiesTest, ValuesMayBeWiderOrNarrowerThanKeys) {
  const server::HeadShape shapes[] = {{2, 2, 1, 40}, {2, 1, 40, 1}, {3, 3, 16, 17}, {1, 1, 64, 128}};
  std::map<std::string, Parameters> checkpoints;
  std::vector<server::LayerParameters> layers;
  for (const server::HeadShape& heads : shapes) {
    layers.push_back(RandomLayer({9, 9, 9, heads, 5}, 6));
    checkpoints[absl::StrCat("w", layers.size())] = ToParameters(layers.back());
  }
  ASSERT_NO_FATAL_FAILURE(Start(checkpoints));
  for (size_t i = 0; i < layers.size(); ++i) {
    v1::AttendRequest request = Draw(shapes[i]);
    ExpectAnswer(request, nullptr, Attend(request));
    request = DrawRequest(layers[i].shape, {}, random_);
    request.set_weight_set(absl::StrCat("w", i + 1));
    AskForEverything(shapes[i], request);
    ExpectAnswer(request, &layers[i], Attend(request));
  }
}

// Keys equal to the queries, and values equal to the keys, need not be sent.
TEST_F(HeadPropertiesTest, AbsentInputsDefaultToThePreviousOne) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(3);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
  *request.mutable_inputs_q() = DrawTensor({kQLength, 12});
  const AttendReply short_form = Attend(request);
  ExpectAnswer(request, nullptr, short_form);
  *request.mutable_inputs_k() = request.inputs_q();
  EXPECT_THAT(Attend(request).output, SameBits(short_form.output));
  *request.mutable_inputs_v() = request.inputs_q();
  EXPECT_THAT(Attend(request).output, SameBits(short_form.output));
}

// Without queries, keys or sequences every tensor of the reply still has its shape.
TEST_F(HeadPropertiesTest, AnyLengthMayBeZero) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const auto axes :
       {v1::HeadLayout::AXES_LENGTH_FEATURES, v1::HeadLayout::AXES_LENGTH_HEADS, v1::HeadLayout::AXES_HEADS_LENGTH}) {
    for (const Sizes& sizes : {Sizes{0, 2, 3}, Sizes{2, 0, 3}, Sizes{2, 3, 0}, Sizes{0, 0, 0}}) {
      SCOPED_TRACE(absl::StrCat(axes, " ", server::ShapeString(sizes)));
      v1::AttendRequest request;
      request.mutable_heads()->set_num_heads(2);
      request.mutable_heads()->set_axes(axes);
      const auto inputs = [&](int64_t length) {
        if (axes == v1::HeadLayout::AXES_LENGTH_FEATURES) return DrawTensor({sizes[0], length, 6});
        if (axes == v1::HeadLayout::AXES_LENGTH_HEADS) return DrawTensor({sizes[0], length, 2, 3});
        return DrawTensor({sizes[0], 2, length, 3});
      };
      *request.mutable_inputs_q() = inputs(sizes[1]);
      *request.mutable_inputs_k() = inputs(sizes[2]);
      ExpectAnswer(request, nullptr, Attend(request));
      AskForEverything({2, 2, 3, 3}, request);
      ExpectAnswer(request, nullptr, Attend(request));
    }
  }
}

}  // namespace
}  // namespace attention::test
