// Equivalent masks: descriptors compared with each other, and with requests that hide nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_checks.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Numbers = std::vector<float>;

constexpr int64_t kFeatures = 12;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

class MaskEqualitiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(layer_)}}});
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  AttendReply Attend(const v1::AttendRequest& request) {
    auto reply = running_->client().Attend(ClientRequest(request));
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : AttendReply();
  }

  Numbers Draw(int64_t tokens) { return DrawNumbers(tokens * kFeatures, random_); }

  // [batch, q_length, kFeatures] and [batch, kv_length, kFeatures].
  v1::AttendRequest DrawCross(int64_t batch, int64_t q_length, int64_t kv_length) {
    v1::AttendRequest request;
    request.set_weight_set("w");
    *request.mutable_inputs_q() = WireFloats({batch, q_length, kFeatures}, Draw(batch * q_length));
    *request.mutable_inputs_k() = WireFloats({batch, kv_length, kFeatures}, Draw(batch * kv_length));
    return request;
  }

  // A self-attention request over `tokens`.
  static v1::AttendRequest Self(const Numbers& tokens) {
    v1::AttendRequest request;
    request.set_weight_set("w");
    *request.mutable_inputs_q() = WireFloats({1, static_cast<int64_t>(tokens.size()) / kFeatures, kFeatures}, tokens);
    return request;
  }

  const server::LayerParameters layer_ = RandomLayer({kFeatures, kFeatures, kFeatures, {4, 2, 5, 3}, kFeatures}, 9);
  std::unique_ptr<RunningServer> running_;
  std::mt19937 random_{77};
};

// Rows [begin, begin + count) of an output with kFeatures columns.
std::vector<double> Rows(const Tensor& output, int64_t begin, int64_t count) {
  const std::vector<double> values = Values(output);
  const auto first = values.begin() + begin * kFeatures;
  return {first, first + count * kFeatures};
}

Expected Sequence(const std::vector<double>& rows) {
  return {{1, static_cast<int64_t>(rows.size()) / kFeatures, kFeatures}, rows, 2e-6, 2e-6};
}

// A padded batch with lengths equals its sequences alone, for any content of the padding.
TEST_F(MaskEqualitiesTest, APaddedBatchEqualsItsSequencesAlone) {
  const int64_t lengths[] = {70, 1, 33, 100};
  constexpr int64_t kPadded = 100;
  Numbers padded(4 * kPadded * kFeatures, std::numeric_limits<float>::quiet_NaN());
  std::vector<Numbers> sequences;
  v1::AttendRequest batch;
  for (int64_t i = 0; i < 4; ++i) {
    sequences.push_back(Draw(lengths[i]));
    std::copy(sequences[i].begin(), sequences[i].end(), padded.begin() + i * kPadded * kFeatures);
    batch.mutable_mask()->add_kv_lengths(lengths[i]);
    batch.mutable_mask()->add_q_lengths(lengths[i]);
  }
  batch.set_weight_set("w");
  *batch.mutable_inputs_q() = WireFloats({4, kPadded, kFeatures}, padded);
  const Tensor output = Attend(batch).output;
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_THAT(Attend(Self(sequences[i])).output, Near(Sequence(Rows(output, i * kPadded, lengths[i]))));
    const std::vector<double> padding = Rows(output, i * kPadded + lengths[i], kPadded - lengths[i]);
    EXPECT_THAT(padding, ::testing::Each(0.0));
  }
}

// Three causal sequences packed into one.
TEST_F(MaskEqualitiesTest, PackedSegmentsEqualSeparateSequences) {
  const int64_t lengths[] = {50, 3, 90};
  Numbers packed;
  std::vector<int32_t> ids;
  std::vector<Numbers> sequences;
  for (int64_t length : lengths) {
    sequences.push_back(Draw(length));
    packed.insert(packed.end(), sequences.back().begin(), sequences.back().end());
    ids.insert(ids.end(), length, static_cast<int32_t>(sequences.size()));
  }
  v1::AttendRequest request = Self(packed);
  *request.mutable_mask()->mutable_q_segment_ids() = WireInt32s({static_cast<int64_t>(ids.size())}, ids);
  request.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  const Tensor output = Attend(request).output;
  int64_t begin = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    v1::AttendRequest alone = Self(sequences[i]);
    *alone.mutable_mask()->mutable_causal() = request.mask().causal();
    EXPECT_THAT(Attend(alone).output, Near(Sequence(Rows(output, begin, lengths[i]))));
    begin += lengths[i];
  }
}

// Decoding one token at a time, as with a cache, gives the rows of one causal request.
TEST_F(MaskEqualitiesTest, DecodingTokenByTokenEqualsOneCausalRequest) {
  const Numbers tokens = Draw(20);
  v1::AttendRequest whole = Self(tokens);
  whole.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
  const Tensor output = Attend(whole).output;
  for (int64_t step = 0; step < 20; ++step) {
    v1::AttendRequest request = Self({tokens.begin() + step * kFeatures, tokens.begin() + (step + 1) * kFeatures});
    *request.mutable_inputs_k() = WireFloats({1, 20, kFeatures}, tokens);
    request.mutable_mask()->mutable_causal()->set_offset(step);
    EXPECT_THAT(Attend(request).output, Near(Sequence(Rows(output, step, 1))));
  }
}

TEST_F(MaskEqualitiesTest, CornersAreTheirOffsets) {
  for (const auto& [q_length, kv_length] : {std::pair(40, 90), std::pair(90, 40), std::pair(1, 130)}) {
    v1::AttendRequest request = DrawCross(2, q_length, kv_length);
    v1::Diagonal& causal = *request.mutable_mask()->mutable_causal();
    causal.set_corner(v1::Diagonal::CORNER_TOP_LEFT);
    const Tensor top_left = Attend(request).output;
    causal.set_offset(0);
    EXPECT_THAT(Attend(request).output, SameBits(top_left));
    causal.set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
    const Tensor bottom_right = Attend(request).output;
    causal.set_offset(kv_length - q_length);
    EXPECT_THAT(Attend(request).output, SameBits(bottom_right));
  }
}

TEST_F(MaskEqualitiesTest, ACausalMaskIsAWindowWithUnlimitedLeft) {
  v1::AttendRequest request = DrawCross(2, 80, 130);
  request.mutable_mask()->mutable_causal()->set_offset(30);
  const Tensor causal = Attend(request).output;
  v1::SlidingWindow& window = *request.mutable_mask()->mutable_window();
  request.mutable_mask()->clear_causal();
  window.mutable_diagonal()->set_offset(30);
  window.set_right(0);
  EXPECT_THAT(Attend(request).output, SameBits(causal));
  window.set_left(-1);
  EXPECT_THAT(Attend(request).output, SameBits(causal));
  window.set_left(kMax);
  EXPECT_THAT(Attend(request).output, SameBits(causal));
}

// The largest offsets and widths in all combinations that could overflow when added.
TEST_F(MaskEqualitiesTest, FarDiagonalsHideEverythingOrNothing) {
  v1::AttendRequest request = DrawCross(1, 10, 20);
  const Tensor everything = Attend(request).output;
  v1::Mask& mask = *request.mutable_mask();
  mask.mutable_causal()->set_offset(kMax);
  EXPECT_THAT(Attend(request).output, SameBits(everything));
  mask.mutable_causal()->set_offset(kMin);
  EXPECT_EQ(Attend(request).empty_rows, 4 * 10);
  mask.clear_causal();
  for (int64_t offset : {kMin, int64_t{0}, kMax}) {
    mask.mutable_window()->mutable_diagonal()->set_offset(offset);
    mask.mutable_window()->set_left(-1);
    mask.mutable_window()->set_right(-1);
    EXPECT_THAT(Attend(request).output, SameBits(everything));
    mask.mutable_window()->set_left(0);
    mask.mutable_window()->set_right(0);
    EXPECT_EQ(Attend(request).empty_rows, offset == 0 ? 0 : 4 * 10);
    mask.mutable_window()->set_left(kMax);
    mask.mutable_window()->set_right(kMax);
    const AttendReply reply = Attend(request);
    EXPECT_NO_FATAL_FAILURE(ExpectAnswer(request, &layer_, reply)) << offset;
  }
}

TEST_F(MaskEqualitiesTest, KeysAfterTheirLengthNeedNotBeSent) {
  v1::AttendRequest request = DrawCross(1, 30, 150);
  v1::AttendRequest shorter = request;
  const Numbers keys = ClientTensor(request.inputs_k()).Floats();
  *shorter.mutable_inputs_k() = WireFloats({1, 67, kFeatures}, {keys.begin(), keys.begin() + 67 * kFeatures});
  request.mutable_mask()->add_kv_lengths(67);
  const Tensor expected = Attend(shorter).output;
  EXPECT_THAT(Attend(request).output, Near(Expected{expected.shape, Values(expected), 2e-6, 2e-6}));
}

// Every float type that represents these numbers gives the same bits. The last key is hidden.
TEST_F(MaskEqualitiesTest, ABiasMayBeOfAnyFloatType) {
  v1::AttendRequest request = DrawCross(1, 5, 4);
  const Numbers bias = {0.5, -3, 0, -std::numeric_limits<float>::infinity()};
  *request.mutable_bias() = WireFloats({4}, bias);
  const AttendReply expected = Attend(request);
  ExpectAnswer(request, &layer_, expected);
  for (const auto dtype : {server::DType::kBFloat16, server::DType::kFloat16, server::DType::kFloat64}) {
    std::string data(4 * server::DTypeSize(dtype), '\0');
    server::FromFloat32(bias.data(), 4, dtype, reinterpret_cast<std::byte*>(data.data()));
    *request.mutable_bias() = WireTensor(static_cast<v1::DataType>(dtype), {4}, data);
    EXPECT_THAT(Attend(request).output, SameBits(expected.output));
  }
}

// −10000 is not −∞: the float32 weight of such a key is 0, but the row is not empty, and a single such key gets all of
// the weight.
TEST_F(MaskEqualitiesTest, ALargeNegativeBiasHidesNoKey) {
  v1::AttendRequest request = DrawCross(1, 3, 4);
  *request.mutable_bias() = WireFloats({1}, {-10000});
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  const AttendReply reply = Attend(request);
  EXPECT_EQ(reply.empty_rows, 0);
  ExpectAnswer(request, &layer_, reply, {.abs = 2e-3, .rel = 0});  // a score plus −10000 keeps four digits
}

}  // namespace
}  // namespace attention::test
