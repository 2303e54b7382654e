// Inputs of every magnitude that float32 has: a reply with status OK has no number that is not finite and no wrong one.
// Otherwise the exact result exceeds its type, and the status is OUT_OF_RANGE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/testing/matchers.h"
#include "tests/testing/reference/reference_request.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kRoundingOfFloat32 = 0x1p-24;

double Uniform(double low, double high, std::mt19937& random) {
  return low + (high - low) * static_cast<double>(random()) / std::mt19937::max();
}

// Numbers whose logarithm is uniform. Sometimes over all of float32, denormals included, else within a factor of 1000.
std::vector<float> DrawMagnitudes(int64_t count, std::mt19937& random) {
  const double low = std::log2(std::numeric_limits<float>::denorm_min()), high = std::log2(kLargest);
  const bool everything = random() % 4 == 0;
  const bool ordinary = random() % 4 == 0;
  const double first = everything ? low : ordinary ? -3 : Uniform(low, high - 10, random);
  const double last = everything ? high : ordinary ? 3 : std::min(high, first + 10);
  const bool positive = random() % 2 == 0;
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const double magnitude = std::min(kLargest, std::exp2(Uniform(first, last, random)));
    number = static_cast<float>(positive || random() % 2 == 0 ? magnitude : -magnitude);
  }
  return numbers;
}

float DrawPositive(std::mt19937& random) { return std::abs(DrawMagnitudes(1, random)[0]); }

v1::AttendRequest Draw(v1::DataType compute_dtype, std::mt19937& random) {
  const int64_t heads = DrawInteger(1, 2, random), q_length = DrawInteger(1, 5, random);
  const int64_t kv_length = DrawInteger(1, 20, random), head_dim = DrawInteger(1, 72, random);
  const int64_t value_head_dim = DrawInteger(0, 3, random) * 13 + 1;
  v1::AttendRequest request;
  request.mutable_heads()->set_num_heads(heads);
  request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
  const auto draw = [&](std::vector<int64_t> shape) {
    return WireFloats(shape, DrawMagnitudes(*server::ElementCount(shape), random));
  };
  *request.mutable_inputs_q() = draw({q_length, heads, head_dim});
  *request.mutable_inputs_k() = draw({kv_length, heads, head_dim});
  *request.mutable_inputs_v() = draw({kv_length, heads, value_head_dim});
  if (random() % 3 == 0) *request.mutable_bias() = draw({q_length, kv_length});
  if (random() % 3 == 0) {
    std::vector<uint8_t> mask(q_length * kv_length);
    for (uint8_t& visible : mask) visible = random() % 2;
    *request.mutable_mask()->mutable_dense() = WireBools({q_length, kv_length}, mask);
  }
  if (random() % 3 == 0) request.mutable_mask()->mutable_causal()->set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
  v1::AttendOptions& options = *request.mutable_options();
  options.set_compute_dtype(compute_dtype);
  // Always set, so that the reference multiplies by the same float32 number.
  options.set_scale(random() % 2 == 0 ? 0.25f : DrawMagnitudes(1, random)[0]);
  if (random() % 4 == 0) options.set_softcap(DrawPositive(random));
  if (random() % 2 == 0) options.set_return_log_sum_exp(true);
  options.set_return_attn_weights(random() % 4 == 0);
  options.set_return_intermediates(random() % 4 == 0);
  constexpr v1::DataType kOutputs[] = {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16,
                                       v1::DATA_TYPE_FLOAT64};
  options.set_output_dtype(kOutputs[std::max<int64_t>(0, DrawInteger(-4, 3, random))]);
  return request;
}

double LargestOf(v1::DataType dtype) {
  return dtype == v1::DATA_TYPE_FLOAT16 ? 65504 : dtype == v1::DATA_TYPE_BFLOAT16 ? 0x1.FEp127 : kLargest;
}

double RoundingOf(v1::DataType dtype) {
  return dtype == v1::DATA_TYPE_FLOAT16 ? 0x1p-11 : dtype == v1::DATA_TYPE_BFLOAT16 ? 0x1p-8 : kRoundingOfFloat32;
}

// Compares one reply with the reference, as far as float32 arithmetic determines the result: a score has the error of
// rounding its terms, and keys whose scores differ by less than their errors may have any weights.
class Check {
 public:
  explicit Check(const v1::AttendRequest& request)
      : request_(request),
        options_(request.options()),
        heads_(HeadsOf(request)),
        scores_shape_(ScoresShape(request, heads_)),
        q_length_(scores_shape_[1]),
        kv_length_(scores_shape_[2]),
        expected_(ReferenceAnswer(request, nullptr)) {
    if (request.has_bias()) bias_ = Values(ClientTensor(request.bias()));
  }

  void Compare(const absl::StatusOr<v1::AttendResponse>& reply) {
    if (!reply.ok()) {
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kOutOfRange) << reply.status();
      EXPECT_TRUE(MayExceedRange()) << reply.status();
      return;
    }
    const std::vector<double> output = Values(ClientTensor(reply->output()));
    std::vector<double> log_sum_exp, weights;
    if (reply->has_log_sum_exp()) log_sum_exp = Values(ClientTensor(reply->log_sum_exp()));
    if (reply->has_attn_weights()) weights = Values(ClientTensor(reply->attn_weights()));
    for (int64_t row = 0; row < heads_.num_heads * q_length_; ++row) {
      const Row plausible = RowOf(row);
      const int64_t width = heads_.value_head_dim;
      const int64_t at = (row % q_length_ * heads_.num_heads + row / q_length_) * width;
      for (int64_t d = 0; d < width; ++d) ExpectOutput(plausible, row, d, output[at + d]);
      if (!log_sum_exp.empty() && plausible.sees_key) {
        const double error = plausible.error + 1e-5 + 1e-6 * std::abs(expected_.log_sum_exp[row]);
        EXPECT_NEAR(log_sum_exp[row], expected_.log_sum_exp[row], error) << "row " << row;
      }
      if (weights.empty()) continue;
      double sum = 0;
      for (int64_t j = 0; j < kv_length_; ++j) sum += weights[row * kv_length_ + j];
      EXPECT_NEAR(sum, 1, 1e-5) << "row " << row;
    }
  }

 private:
  // The keys of a row that may have a weight, and the largest error of their scores. All keys if it sees none.
  struct Row {
    std::vector<int64_t> keys;
    double error = 0;
    bool sees_key = false;
  };

  double ErrorOf(int64_t row, int64_t key) const {
    const int64_t head = row / q_length_, query = row % q_length_;
    const double* q = &expected_.query[(query * heads_.num_heads + head) * heads_.head_dim];
    const double* k = &expected_.key[(key * heads_.num_heads + head) * heads_.head_dim];
    double terms = 0;
    for (int64_t d = 0; d < heads_.head_dim; ++d) terms += std::abs(q[d] * k[d] * options_.scale());
    terms *= 1.01;  // rounded operands
    double error = kRoundingOfFloat32 * (static_cast<double>(heads_.head_dim) + 4) * terms;
    const double score = expected_.capped_scores[row * kv_length_ + key];
    if (options_.has_softcap()) error = std::min(error, 2.0 * options_.softcap()) + 1e-5 * std::abs(score);
    const double bias = bias_.empty() ? 0 : bias_[query * kv_length_ + key];
    return error + 2 * kRoundingOfFloat32 * (std::abs(score) + std::abs(bias)) + 1e-6;
  }

  Row RowOf(int64_t row) const {
    const double* scores = &expected_.masked_scores[row * kv_length_];
    double certain = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < kv_length_; ++j) certain = std::max(certain, scores[j] - ErrorOf(row, j));
    Row plausible;
    for (int64_t j = 0; j < kv_length_; ++j) {
      if (!std::isfinite(scores[j])) continue;
      const double error = ErrorOf(row, j);
      if (scores[j] + error < certain - 110) continue;
      plausible.keys.push_back(j);
      plausible.error = std::max(plausible.error, error);
    }
    plausible.sees_key = !plausible.keys.empty();
    for (int64_t j = 0; !plausible.sees_key && j < kv_length_; ++j) plausible.keys.push_back(j);
    return plausible;
  }

  double ValueAt(int64_t row, int64_t key, int64_t d) const {
    return expected_.value[(key * heads_.num_heads + row / q_length_) * heads_.value_head_dim + d];
  }

  double OutputAt(int64_t row, int64_t d) const {
    const int64_t head = row / q_length_, query = row % q_length_;
    return expected_.context[(query * heads_.num_heads + head) * heads_.value_head_dim + d];
  }

  double Rounding() const {
    const double of_weights = options_.compute_dtype() == v1::DATA_TYPE_BFLOAT16 ? 0x1p-7 : 4e-6;
    return of_weights + RoundingOf(options_.output_dtype());
  }

  void ExpectOutput(const Row& row, int64_t index, int64_t d, double actual) const {
    const double expected = OutputAt(index, d);
    double low = expected, high = expected, largest = std::abs(expected), effect = 0;
    for (const int64_t key : row.keys) {
      const double value = ValueAt(index, key, d);
      low = std::min(low, value);
      high = std::max(high, value);
      largest = std::max(largest, std::abs(value));
      const double weight = expected_.attn_weights[index * kv_length_ + key];
      effect += weight * std::abs(value - expected) * std::expm1(std::min(700.0, 2 * row.error));
    }
    // Tiny numbers may be lost: a product with a small weight is below the range of float32.
    const double tiny = options_.output_dtype() == v1::DATA_TYPE_FLOAT16 ? 0x1p-24 : 1e-34;
    const double rounding = Rounding() * largest + tiny;
    ASSERT_TRUE(std::isfinite(actual)) << "row " << index << ", expected " << expected;
    EXPECT_GE(actual, std::max(low, expected - effect) - rounding) << "row " << index << ", expected " << expected;
    EXPECT_LE(actual, std::min(high, expected + effect) + rounding) << "row " << index << ", expected " << expected;
  }

  // The scaled query is the operand of the scores.
  bool ScaledQueryExceedsRange() const {
    return std::any_of(expected_.query.begin(), expected_.query.end(),
                       [&](double number) { return std::abs(number * options_.scale()) * 1.01 > kLargest; });
  }

  bool MayExceedRange() const {
    const auto exceeds = [](double number, double largest) { return std::abs(number) * 1.01 > largest; };
    if (options_.return_intermediates() && ScaledQueryExceedsRange()) return true;
    for (int64_t row = 0; row < heads_.num_heads * q_length_; ++row) {
      const Row plausible = RowOf(row);
      if (options_.return_log_sum_exp() && plausible.sees_key &&
          exceeds(std::abs(expected_.log_sum_exp[row]) + plausible.error, kLargest)) {
        return true;
      }
      for (int64_t d = 0; d < heads_.value_head_dim; ++d) {
        if (exceeds(OutputAt(row, d), LargestOf(options_.output_dtype()))) return true;
        for (const int64_t key : plausible.keys) {
          if (exceeds(ValueAt(row, key, d), LargestOf(options_.output_dtype()))) return true;
        }
      }
      for (int64_t j = 0; options_.return_intermediates() && j < kv_length_; ++j) {
        // The error is relative to the terms of the score, which may cancel.
        if (ErrorOf(row, j) > kLargest * kRoundingOfFloat32 / 100) return true;
        if (exceeds(expected_.scores[row * kv_length_ + j], kLargest)) return true;
      }
    }
    return false;
  }

  const v1::AttendRequest& request_;
  const v1::AttendOptions& options_;
  const server::HeadShape heads_;
  const std::vector<int64_t> scores_shape_;
  const int64_t q_length_;
  const int64_t kv_length_;
  const ReferenceOutputs expected_;
  std::vector<double> bias_;
};

class MagnitudesTest : public ::testing::TestWithParam<v1::DataType> {};

TEST_P(MagnitudesTest, GiveTheRightNumbersOrAnError) {
  auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  std::mt19937 random(29);
  int answered = 0;
  for (int round = 0; round < 1500; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const v1::AttendRequest request = Draw(GetParam(), random);
    const auto reply = (*running)->AttendRaw(request);
    Check(request).Compare(reply);
    answered += reply.ok() ? 1 : 0;
    ASSERT_FALSE(HasFailure()) << request.options().ShortDebugString();
  }
  EXPECT_GT(answered, 1000);
}

INSTANTIATE_TEST_SUITE_P(Types, MagnitudesTest, ::testing::Values(v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16),
                         [](const auto& info) { return info.param == v1::DATA_TYPE_FLOAT32 ? "Float32" : "BFloat16"; });

}  // namespace
}  // namespace attention::test
