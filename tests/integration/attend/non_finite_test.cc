// NaN, infinities and the largest numbers at hidden keys change no bit of a row. A NaN at a visible key makes the row
// NaN.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/random_masks.h"
#include "tests/testing/reference/reference_mask.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kBatch = 2;
constexpr int64_t kQLength = 70;
constexpr int64_t kKvLength = 140;

const server::LayerShape kLayer = {12, 8, 10, {4, 2, 5, 7}, 6};
const server::HeadShape kHeads = {4, 2, 5, 7};

// The poisoned inputs: keys, values, or both.
struct Poison {
  const char* name;
  float number;
  bool keys;
  bool values;
};

const Poison kPoisons[] = {{"NaN in keys", kNaN, true, false},
                           {"NaN in values", kNaN, false, true},
                           {"inf in keys", kInf, true, false},
                           {"inf in values", -kInf, false, true},
                           {"NaN in both", kNaN, true, true},
                           // Finite in float32, infinite in bfloat16.
                           {"largest in values", std::numeric_limits<float>::max(), false, true},
                           {"largest in both", std::numeric_limits<float>::lowest(), true, true}};

constexpr int kRounds = 21;

// Overwrites some elements of each poisoned token of [batch, kv_length, width] with `number`.
void Spoil(const std::vector<uint8_t>& tokens, float number, v1::Tensor& inputs) {
  std::vector<float> numbers = ClientTensor(inputs).Floats();
  const size_t width = numbers.size() / tokens.size();
  for (size_t token = 0; token < tokens.size(); ++token) {
    for (size_t i = 0; i < width && tokens[token] != 0; ++i) numbers[token * width + i] = number;
  }
  inputs = WireFloats({inputs.shape().begin(), inputs.shape().end()}, numbers);
}

// How the rows of [batch, num_heads, q_length] depend on the poisoned tokens.
class Contact {
 public:
  Contact(const v1::AttendRequest& request, const std::vector<uint8_t>& tokens, const Poison& poison)
      : visible_(DenseMask(request.mask(), {kBatch, kHeads.num_heads, kQLength, kKvLength})),
        tokens_(tokens),
        poison_(poison),
        request_(request) {
    if (!request.has_bias()) return;
    const v1::Tensor& bias = request.bias();
    const std::vector<double> added =
        Broadcast(Values(ClientTensor(bias)), {bias.shape().data(), static_cast<size_t>(bias.shape_size())},
                  {kBatch, kHeads.num_heads, kQLength, kKvLength});
    for (size_t i = 0; i < added.size(); ++i) {
      if (added[i] == -kInf) visible_[i] = 0;
    }
  }

  // A row after q_lengths depends on nothing. Under UNIFORM an empty row depends on all values.
  bool Touches(int64_t sequence, int64_t head, int64_t query) const {
    const auto& q_lengths = request_.mask().q_lengths();
    if (!q_lengths.empty() && query >= q_lengths[static_cast<int>(sequence)]) return false;
    const int64_t row = ((sequence * kHeads.num_heads + head) * kQLength + query) * kKvLength;
    bool empty = true;
    bool touches = false;
    bool any = false;
    for (int64_t key = 0; key < kKvLength; ++key) {
      const bool sees = visible_[row + key] != 0;
      const bool poisoned = tokens_[sequence * kKvLength + key] != 0;
      empty = empty && !sees;
      touches = touches || (sees && poisoned);
      any = any || poisoned;
    }
    if (!empty) return touches;
    return any && poison_.values && request_.options().empty_rows() != v1::EMPTY_ROWS_ZERO;
  }

  // The same for a row of a layer's output, which depends on all heads.
  bool AnyHeadTouches(int64_t sequence, int64_t query) const {
    for (int64_t head = 0; head < kHeads.num_heads; ++head) {
      if (Touches(sequence, head, query)) return true;
    }
    return false;
  }

 private:
  std::vector<uint8_t> visible_;
  const std::vector<uint8_t>& tokens_;
  const Poison& poison_;
  const v1::AttendRequest& request_;
};

// One or two parts of a mask, with products in float32 or bfloat16.
struct Case {
  MaskPart part;
  v1::DataType compute_dtype;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto dtype : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16}) {
    for (MaskPart part : kMaskParts) cases.push_back({part, dtype});
  }
  return cases;
}

class NonFiniteTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    auto running = RunningServer::Start({.checkpoints = {{"w", ToParameters(RandomLayer(kLayer, 3))}}});
    ASSERT_THAT(running, IsOk());
    running_ = running->release();
  }

  static void TearDownTestSuite() {
    delete running_;
    running_ = nullptr;
  }

  void SetUp() override { ASSERT_NE(running_, nullptr); }

  v1::Tensor DrawTensor(const std::vector<int64_t>& shape) {
    return WireFloats(shape, DrawNumbers(*server::ElementCount(shape), random_));
  }

  v1::AttendRequest Masked(v1::AttendRequest request) {
    AddMaskPart(GetParam().part, kHeads, random_, request);
    const MaskPart other = kMaskParts[random_() % kMaskParts.size()];
    if (random_() % 3 == 0 && !Exclude(GetParam().part, other)) AddMaskPart(other, kHeads, random_, request);
    v1::AttendOptions& options = *request.mutable_options();
    options.set_compute_dtype(GetParam().compute_dtype);
    if (random_() % 2 == 0) options.set_empty_rows(v1::EMPTY_ROWS_ZERO);
    options.set_return_attn_weights(random_() % 2 == 0);
    // Intermediates include hidden keys.
    options.set_return_intermediates(random_() % 4 == 0);
    return request;
  }

  v1::AttendRequest OnALayer() {
    v1::AttendRequest request;
    request.set_weight_set("w");
    *request.mutable_inputs_q() = DrawTensor({kBatch, kQLength, kLayer.in_features});
    *request.mutable_inputs_k() = DrawTensor({kBatch, kKvLength, kLayer.in_k_features});
    *request.mutable_inputs_v() = DrawTensor({kBatch, kKvLength, kLayer.in_v_features});
    return Masked(request);
  }

  v1::AttendRequest WithoutProjections() {
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(kHeads.num_heads);
    request.mutable_heads()->set_num_kv_heads(kHeads.num_kv_heads);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_FEATURES);
    *request.mutable_inputs_q() = DrawTensor({kBatch, kQLength, kHeads.query_features()});
    *request.mutable_inputs_k() = DrawTensor({kBatch, kKvLength, kHeads.key_features()});
    *request.mutable_inputs_v() = DrawTensor({kBatch, kKvLength, kHeads.value_features()});
    return Masked(request);
  }

  // One in eight tokens of [batch, kv_length], or few enough that a row of a dense mask may see none of them.
  std::vector<uint8_t> DrawTokens() {
    const uint32_t one_of = random_() % 2 == 0 ? 8 : 70;
    std::vector<uint8_t> tokens(kBatch * kKvLength);
    for (uint8_t& token : tokens) token = random_() % one_of == 0;
    return tokens;
  }

  // `clean` with poisoned tokens, and NaN in all queries after q_lengths.
  v1::AttendRequest Spoiled(const v1::AttendRequest& clean, const std::vector<uint8_t>& tokens, const Poison& poison) {
    v1::AttendRequest spoiled = clean;
    if (poison.keys) Spoil(tokens, poison.number, *spoiled.mutable_inputs_k());
    if (poison.values) Spoil(tokens, poison.number, *spoiled.mutable_inputs_v());
    const auto& q_lengths = clean.mask().q_lengths();
    if (q_lengths.empty()) return spoiled;
    std::vector<uint8_t> behind(kBatch * kQLength);
    for (size_t i = 0; i < behind.size(); ++i) {
      behind[i] = static_cast<int64_t>(i) % kQLength >= q_lengths[static_cast<int>(i / kQLength)];
    }
    Spoil(behind, kNaN, *spoiled.mutable_inputs_q());
    return spoiled;
  }

  absl::StatusOr<AttendReply> Attend(const v1::AttendRequest& request) {
    return running_->client().Attend(ClientRequest(request));
  }

  static RunningServer* running_;
  std::mt19937 random_{5};
};

RunningServer* NonFiniteTest::running_ = nullptr;

// Compares row `row` of both tensors: the same bits, or all NaN if the row depends on a NaN.
void ExpectRow(const Tensor& clean, const Tensor& spoiled, int64_t row, bool touches, bool is_nan) {
  const size_t width = static_cast<size_t>(clean.shape.back());
  const std::vector<float> numbers = spoiled.Floats();
  ASSERT_EQ(clean.bytes.size(), spoiled.bytes.size());
  const size_t bytes = width * sizeof(float);
  if (!touches) {
    ASSERT_EQ(std::memcmp(clean.bytes.data() + row * bytes, spoiled.bytes.data() + row * bytes, bytes), 0)
        << "row " << row << " begins with " << numbers[row * width];
    return;
  }
  for (size_t i = 0; i < width && is_nan; ++i) {
    ASSERT_TRUE(std::isnan(numbers[row * width + i])) << "row " << row << " is " << numbers[row * width + i];
  }
}

// True if a result that depends on the poisoned tokens exceeds float32, as the largest numbers may.
bool ExceedsRange(const absl::StatusOr<AttendReply>& reply, const v1::AttendRequest& request, const Poison& poison,
                  const Contact& contact) {
  if (reply.status().code() != absl::StatusCode::kOutOfRange) return false;
  EXPECT_TRUE(std::isfinite(poison.number)) << reply.status();
  bool touches = request.options().return_intermediates();
  for (int64_t row = 0; row < kBatch * kQLength; ++row) {
    touches = touches || contact.AnyHeadTouches(row / kQLength, row % kQLength);
  }
  EXPECT_TRUE(touches) << reply.status();
  return true;
}

TEST_P(NonFiniteTest, StaysWithTheRowsThatSeeItOnALayer) {
  for (int round = 0; round < kRounds; ++round) {
    const Poison& poison = kPoisons[round % std::size(kPoisons)];
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", poison.name));
    const v1::AttendRequest request = OnALayer();
    const std::vector<uint8_t> tokens = DrawTokens();
    const auto clean = Attend(request);
    const auto spoiled = Attend(Spoiled(request, tokens, poison));
    const Contact contact(request, tokens, poison);
    ASSERT_THAT(clean, IsOk());
    if (ExceedsRange(spoiled, request, poison, contact)) continue;
    ASSERT_THAT(spoiled, IsOk());
    EXPECT_EQ(spoiled->empty_rows, clean->empty_rows);
    for (int64_t row = 0; row < kBatch * kQLength; ++row) {
      const bool touches = contact.AnyHeadTouches(row / kQLength, row % kQLength);
      ASSERT_NO_FATAL_FAILURE(ExpectRow(clean->output, spoiled->output, row, touches, std::isnan(poison.number)));
    }
  }
}

// Compares output and weights for each row of each head.
TEST_P(NonFiniteTest, StaysWithTheRowsThatSeeItWithoutProjections) {
  for (int round = 0; round < kRounds; ++round) {
    const Poison& poison = kPoisons[round % std::size(kPoisons)];
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", poison.name));
    const v1::AttendRequest request = WithoutProjections();
    const std::vector<uint8_t> tokens = DrawTokens();
    auto clean = Attend(request);
    auto spoiled = Attend(Spoiled(request, tokens, poison));
    const Contact contact(request, tokens, poison);
    ASSERT_THAT(clean, IsOk());
    if (ExceedsRange(spoiled, request, poison, contact)) continue;
    ASSERT_THAT(spoiled, IsOk());
    const std::vector<int64_t> rows_of_heads = {kBatch, kQLength, kHeads.num_heads, kHeads.value_head_dim};
    clean->output.shape = spoiled->output.shape = rows_of_heads;
    for (int64_t row = 0; row < kBatch * kQLength * kHeads.num_heads; ++row) {
      const int64_t head = row % kHeads.num_heads;
      const int64_t query = row / kHeads.num_heads % kQLength;
      const int64_t sequence = row / kHeads.num_heads / kQLength;
      const bool touches = contact.Touches(sequence, head, query);
      ASSERT_NO_FATAL_FAILURE(ExpectRow(clean->output, spoiled->output, row, touches, std::isnan(poison.number)));
      if (!clean->attn_weights.has_value()) continue;
      const int64_t weights_row = (sequence * kHeads.num_heads + head) * kQLength + query;
      ASSERT_NO_FATAL_FAILURE(
          ExpectRow(*clean->attn_weights, *spoiled->attn_weights, weights_row, touches && poison.keys, false));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, NonFiniteTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return NameOf(info.param.part) + (info.param.compute_dtype == v1::DATA_TYPE_BFLOAT16 ? "BFloat16" : "");
});

// With scores of −1000 and 0 the first weight is 0 in float32, so the value of that key does not matter.
TEST(WeightZeroTest, IgnoresAnyValue) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  for (const float value : {kNaN, kInf, -kInf}) {
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(1);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
    *request.mutable_inputs_q() = WireFloats({2, 1, 1}, {1, 0});
    *request.mutable_inputs_k() = WireFloats({2, 1, 1}, {0, -1000});
    *request.mutable_inputs_v() = WireFloats({2, 1, 1}, {7, value});
    const auto reply = (*running)->client().Attend(ClientRequest(request));
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->output, Near(Expected{{2, 1, 1}, {7, value}})) << value;
  }
}

}  // namespace
}  // namespace attention::test
