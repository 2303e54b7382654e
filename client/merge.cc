#include "client/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/internal/field_error.h"

namespace attention {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

absl::Status CheckSameShape(absl::string_view field, const Tensor& a, const Tensor& b) {
  if (absl::Status status = CheckBytes(absl::StrCat("a.", field), a); !status.ok()) return status;
  if (absl::Status status = CheckBytes(absl::StrCat("b.", field), b); !status.ok()) return status;
  if (a.shape == b.shape) return absl::OkStatus();
  return FieldError(absl::StrCat("b.", field), absl::StrCat("shape ", ShapeText(a.shape), " as in a.", field),
                    ShapeText(b.shape));
}

// True if the context has the axes of log_sum_exp in the order of `axes`, and value_head_dim as its last axis or as a
// factor of it.
bool ContextMatches(const KeyShard& shard, HeadAxes axes) {
  std::vector<int64_t> expected = shard.log_sum_exp.shape;
  std::vector<int64_t> actual = shard.context.shape;
  const size_t rank = expected.size();
  if (rank < 2 || actual.empty()) return false;
  const int64_t num_heads = expected[rank - 2];
  if (axes != HeadAxes::kHeadsLength) std::swap(expected[rank - 2], expected[rank - 1]);
  if (axes == HeadAxes::kLengthFeatures) expected.pop_back();
  const int64_t width = actual.back();
  actual.pop_back();
  const bool divides = axes != HeadAxes::kLengthFeatures || (num_heads == 0 ? width == 0 : width % num_heads == 0);
  return actual == expected && divides;
}

absl::string_view AxesText(HeadAxes axes) {
  if (axes == HeadAxes::kLengthFeatures) return "[batch…, q_length, num_heads × value_head_dim]";
  if (axes == HeadAxes::kHeadsLength) return "[batch…, num_heads, q_length, value_head_dim]";
  return "[batch…, q_length, num_heads, value_head_dim]";
}

absl::Status CheckShapes(const KeyShard& a, const KeyShard& b, HeadAxes axes) {
  if (absl::Status status = CheckSameShape("context", a.context, b.context); !status.ok()) return status;
  if (absl::Status status = CheckSameShape("log_sum_exp", a.log_sum_exp, b.log_sum_exp); !status.ok()) return status;
  if (ContextMatches(a, axes)) return absl::OkStatus();
  return FieldError("a.context", absl::StrCat(AxesText(axes), " for log_sum_exp ", ShapeText(a.log_sum_exp.shape)),
                    ShapeText(a.context.shape));
}

// The weight of context_a in its average with context_b.
double WeightOf(double log_sum_exp_a, double log_sum_exp_b) {
  return log_sum_exp_a == kNoKey ? 0 : 1 / (1 + std::exp(log_sum_exp_b - log_sum_exp_a));
}

double LogSumExp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;  // std::max would ignore one of them
  const double largest = std::max(a, b);
  if (std::isinf(largest)) return largest;  // the difference of two infinities is NaN
  return largest + std::log1p(std::exp(std::min(a, b) - largest));
}

// 0 if the weight is 0, even if the value is NaN or infinite.
double Times(double weight, float value) { return weight == 0 ? 0 : weight * value; }

Tensor Float32Tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {DataType::kFloat32, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

}  // namespace

absl::StatusOr<KeyShard> MergeKeyShards(const KeyShard& a, const KeyShard& b, HeadAxes axes) {
  if (absl::Status status = CheckShapes(a, b, axes); !status.ok()) return status;
  const std::vector<float> lse_a = a.log_sum_exp.Floats(), lse_b = b.log_sum_exp.Floats();
  const std::vector<float> context_a = a.context.Floats(), context_b = b.context.Floats();
  std::vector<float> lse(lse_a.size());
  std::vector<float> context(context_a.size());
  const size_t num_heads = a.log_sum_exp.shape.end()[-2], q_length = a.log_sum_exp.shape.end()[-1];
  const size_t width = lse.empty() ? 0 : context.size() / lse.size();
  for (size_t row = 0; row < lse.size(); ++row) {
    lse[row] = static_cast<float>(LogSumExp(lse_a[row], lse_b[row]));
    const double weight_a = WeightOf(lse_a[row], lse_b[row]), weight_b = WeightOf(lse_b[row], lse_a[row]);
    const size_t i = row % q_length, h = row / q_length % num_heads, sequence = row / q_length / num_heads;
    const size_t context_row = axes == HeadAxes::kHeadsLength ? row : (sequence * q_length + i) * num_heads + h;
    for (size_t d = context_row * width; d < (context_row + 1) * width; ++d) {
      context[d] = static_cast<float>(Times(weight_a, context_a[d]) + Times(weight_b, context_b[d]));
    }
  }
  return KeyShard{Float32Tensor(a.context.shape, context), Float32Tensor(a.log_sum_exp.shape, lse)};
}

}  // namespace attention
