#include "client/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

absl::Status CheckBytes(absl::string_view field, const Tensor& tensor) {
  const absl::StatusOr<int64_t> wanted = ByteSize(tensor.dtype, tensor.shape);
  if (!wanted.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ": ", wanted.status().message()));
  if (static_cast<uint64_t>(*wanted) == tensor.bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": wanted ", *wanted, " bytes, got ", tensor.bytes.size()));
}

absl::Status CheckSame(absl::string_view field, const Tensor& a, const Tensor& b) {
  if (absl::Status status = CheckBytes(field, a); !status.ok()) return status;
  if (absl::Status status = CheckBytes(field, b); !status.ok()) return status;
  if (a.shape == b.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": shapes [", absl::StrJoin(a.shape, ", "), "] and [",
                                                 absl::StrJoin(b.shape, ", "), "] differ"));
}

// The axes of log_sum_exp, in the order of `axes`, before value_head_dim; features hold num_heads times that.
bool Fits(const KeyShard& shard, HeadAxes axes) {
  std::vector<int64_t> wanted = shard.log_sum_exp.shape;
  std::vector<int64_t> found = shard.context.shape;
  const size_t rank = wanted.size();
  if (rank < 2 || found.empty()) return false;
  const int64_t num_heads = wanted[rank - 2];
  if (axes != HeadAxes::kHeadsLength) std::swap(wanted[rank - 2], wanted[rank - 1]);
  if (axes == HeadAxes::kLengthFeatures) wanted.pop_back();
  const int64_t width = found.back();
  found.pop_back();
  const bool divides = axes != HeadAxes::kLengthFeatures || (num_heads == 0 ? width == 0 : width % num_heads == 0);
  return found == wanted && divides;
}

// What context_a counts for beside context_b.
double WeightOf(double log_sum_exp_a, double log_sum_exp_b) {
  return log_sum_exp_a == kNoKey ? 0 : 1 / (1 + std::exp(log_sum_exp_b - log_sum_exp_a));
}

double LogSumExp(double a, double b) {
  const double largest = std::max(a, b);
  return largest == kNoKey ? kNoKey : largest + std::log1p(std::exp(std::min(a, b) - largest));
}

// A weight of 0 keeps out NaN and infinity too.
double Times(double weight, float value) { return weight == 0 ? 0 : weight * value; }

Tensor Float32Tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {DataType::kFloat32, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

}  // namespace

absl::StatusOr<KeyShard> MergeKeyShards(const KeyShard& a, const KeyShard& b, HeadAxes axes) {
  if (absl::Status status = CheckSame("context", a.context, b.context); !status.ok()) return status;
  if (absl::Status status = CheckSame("log_sum_exp", a.log_sum_exp, b.log_sum_exp); !status.ok()) return status;
  if (!Fits(a, axes)) {
    return absl::InvalidArgumentError(absl::StrCat("log_sum_exp: shape [", absl::StrJoin(a.log_sum_exp.shape, ", "),
                                                   "] does not fit context [", absl::StrJoin(a.context.shape, ", "),
                                                   "]"));
  }
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
    const size_t place = axes == HeadAxes::kHeadsLength ? row : (sequence * q_length + i) * num_heads + h;
    for (size_t d = place * width; d < (place + 1) * width; ++d) {
      context[d] = static_cast<float>(Times(weight_a, context_a[d]) + Times(weight_b, context_b[d]));
    }
  }
  return KeyShard{Float32Tensor(a.context.shape, context), Float32Tensor(a.log_sum_exp.shape, lse)};
}

}  // namespace attention
