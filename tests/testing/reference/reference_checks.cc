#include "tests/testing/reference/reference_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/testing/reference/reference_request.h"

namespace attention::test {
namespace {

using Sizes = std::vector<int64_t>;

Sizes Joined(Sizes a, const Sizes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Compares the tensors of one reply.
class Comparison {
 public:
  Comparison(const v1::AttendRequest& request, const server::LayerParameters* layer, const Tolerance& tolerance)
      : request_(request),
        layer_(layer),
        tolerance_(tolerance),
        heads_(layer == nullptr ? HeadsOf(request) : layer->shape.heads),
        batch_(BatchAxes(request)),
        scores_(ScoresShape(request, heads_)),
        expected_(ReferenceAnswer(request, layer)) {}

  void Compare(const AttendReply& reply) const {
    const v1::AttendOptions& options = request_.options();
    EXPECT_THAT(reply.output,
                Matches(OutputShape(request_, layer_ == nullptr ? nullptr : &layer_->shape), expected_.output))
        << "output";
    EXPECT_EQ(reply.empty_rows, expected_.empty_rows);
    Expect("attn_weights", options.return_attn_weights() || options.return_intermediates(), reply.attn_weights, scores_,
           expected_.attn_weights);
    Expect("mean_attn_weights", options.return_mean_attn_weights(), reply.mean_attn_weights,
           Joined(batch_, {q_length(), kv_length()}), expected_.mean_attn_weights);
    Expect("log_sum_exp", options.return_log_sum_exp(), reply.log_sum_exp,
           Joined(batch_, {heads_.num_heads, q_length()}), expected_.log_sum_exp);
    ASSERT_EQ(reply.intermediates.has_value(), options.return_intermediates());
    if (reply.intermediates.has_value()) Compare(*reply.intermediates);
    ASSERT_EQ(reply.top_keys.has_value(), options.top_k() != 0);
  }

 private:
  int64_t q_length() const { return scores_[scores_.size() - 2]; }
  int64_t kv_length() const { return scores_.back(); }

  void Compare(const Intermediates& lines) const {
    const bool projected = layer_ != nullptr;
    Expect("query", projected, lines.query, Joined(batch_, {q_length(), heads_.num_heads, heads_.head_dim}),
           expected_.query);
    Expect("key", projected, lines.key, Joined(batch_, {kv_length(), heads_.num_kv_heads, heads_.head_dim}),
           expected_.key);
    Expect("value", projected, lines.value, Joined(batch_, {kv_length(), heads_.num_kv_heads, heads_.value_head_dim}),
           expected_.value);
    EXPECT_THAT(lines.scores, Matches(scores_, expected_.scores)) << "scores";
    Expect("capped_scores", request_.options().has_softcap(), lines.capped_scores, scores_, expected_.capped_scores);
    EXPECT_THAT(lines.masked_scores, Matches(scores_, expected_.masked_scores)) << "masked_scores";
    EXPECT_THAT(lines.context,
                Matches(Joined(batch_, {q_length(), heads_.num_heads, heads_.value_head_dim}), expected_.context))
        << "context";
  }

  void Expect(const char* name, bool is_requested, const std::optional<Tensor>& actual, const Sizes& shape,
              const std::vector<double>& expected) const {
    ASSERT_EQ(actual.has_value(), is_requested) << name;
    if (is_requested) {
      EXPECT_THAT(*actual, Matches(shape, expected)) << name;
    }
  }

  ::testing::Matcher<const Tensor&> Matches(const Sizes& shape, const std::vector<double>& values) const {
    return Near(Expected{shape, values, tolerance_.abs, tolerance_.rel});
  }

  const v1::AttendRequest& request_;
  const server::LayerParameters* const layer_;
  const Tolerance tolerance_;
  const server::HeadShape heads_;
  const Sizes batch_;
  const Sizes scores_;
  const ReferenceOutputs expected_;
};

}  // namespace

void ExpectAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer, const AttendReply& reply,
                  const Tolerance& tolerance) {
  Comparison(request, layer, tolerance).Compare(reply);
  if (reply.top_keys.has_value() && reply.attn_weights.has_value()) ExpectTopKeysOfWeights(request, reply);
}

void ExpectTopKeysOfWeights(const v1::AttendRequest& request, const AttendReply& reply) {
  const int64_t top_k = request.options().top_k();
  const std::vector<int64_t>& shape = reply.attn_weights->shape;
  const int64_t kv_length = shape.back();
  const int64_t q_length = shape[shape.size() - 2];
  const int64_t num_heads = shape[shape.size() - 3];
  Sizes expected_shape = shape;
  expected_shape.back() = top_k;
  ASSERT_EQ(reply.top_keys->keys.shape, expected_shape);
  ASSERT_EQ(reply.top_keys->weights.shape, expected_shape);
  const std::vector<float> weights = reply.attn_weights->Floats();
  const std::vector<int64_t> keys = reply.top_keys->keys.Integers();
  const std::vector<float> top_weights = reply.top_keys->weights.Floats();
  ASSERT_EQ(keys.size(), top_weights.size());
  ASSERT_EQ(keys.size() * kv_length, weights.size() * top_k);

  for (int64_t row = 0; row * top_k < static_cast<int64_t>(keys.size()); ++row) {
    const auto& q_lengths = request.mask().q_lengths();
    const bool is_padding =
        !q_lengths.empty() && row % q_length >= q_lengths[static_cast<int>(row / q_length / num_heads)];
    const float* of_row = weights.data() + row * kv_length;
    Sizes order(kv_length);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return of_row[a] > of_row[b]; });
    for (int64_t n = 0; n < top_k; ++n) {
      const float weight = is_padding ? 0 : of_row[order[n]];
      const int64_t key = is_padding ? 0 : weight > 0 ? order[n] : -1;
      ASSERT_EQ(keys[row * top_k + n], key) << "row " << row << ", number " << n;
      ASSERT_EQ(top_weights[row * top_k + n], weight) << "row " << row << ", number " << n;
    }
  }
}

}  // namespace attention::test
