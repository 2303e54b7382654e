#include "server/engine/attention/float64_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "server/engine/kernels/row_kernels.h"

namespace attention::server {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();

// The number rounded to an operand. One that would round to infinity is not rounded.
template <typename Number>
Number RoundedToOperand(Number number, DType operands) {
  if (operands == DType::kFloat32 || std::abs(number) > kLargest) return number;
  const uint32_t bits = RoundedToBFloat16(static_cast<float>(number));
  const auto rounded = std::bit_cast<float>(bits << 16);
  return std::isfinite(rounded) ? static_cast<Number>(rounded) : number;
}

}  // namespace

bool Float64Row::Weigh(int64_t row, float query_norm, KeyRange range, float* weights, double* log_sum_exp) {
  const int64_t query = tile_.first_query + row;
  if (!ReadBias(query, range) || !NeedsFloat64(query_norm, range)) return false;
  if (!ReadQuery(query) || !Score(range)) return false;
  double largest = -kInfinity;
  for (int64_t i = 0; i < range.size(); ++i) {
    if (IsVisible(i)) largest = std::max(largest, scores_[i]);
  }
  double sum = 0;
  for (int64_t i = 0; i < range.size(); ++i) {
    scores_[i] = IsVisible(i) ? std::exp(scores_[i] - largest) : 0;
    sum += scores_[i];
  }
  for (int64_t i = 0; i < range.size(); ++i) weights[i] = static_cast<float>(scores_[i] / sum);
  *log_sum_exp = largest + std::log(sum);
  return true;
}

bool Float64Row::Average(KeyRange range, const float* weights, float* context) {
  const HeadRows& values = tile_.worker.head.value_rows();
  std::vector<double> sums(values.size);
  double sum = 0;
  for (int64_t key = range.begin; key < range.end; ++key) {
    const auto weight = static_cast<double>(weights[key - range.begin]);
    if (weight == 0) continue;
    const float* value = Read(values, key);
    if (!AllFinite(value, values.size, 1)) {
      Flag(FormulaTensor::kValue);
      return false;
    }
    for (int64_t i = 0; i < values.size; ++i) sums[i] += weight * static_cast<double>(value[i]);
    sum += weight;
  }
  for (int64_t i = 0; i < values.size; ++i) {
    context[i] = static_cast<float>(std::clamp(sums[i] / sum, -kLargest, kLargest));
  }
  return true;
}

// Returns false if a bias is not finite.
bool Float64Row::ReadBias(int64_t query, KeyRange range) {
  bias_.assign(range.size() + kMaxChunkKeys, 0.0f);
  for (const KeyChunk& chunk : tile_.chunks()) {
    float* of_chunk = bias_.data() + (chunk.range.begin - range.begin);
    // A chunk writes more columns than it has keys, where the next chunk begins.
    std::fill_n(of_chunk, chunk.columns, 0.0f);
    tile_.mask.Apply(query, chunk.range, chunk.columns, of_chunk, tile_.worker.mask);
  }
  return std::none_of(bias_.begin(), bias_.begin() + range.size(),
                      [](float bias) { return std::isnan(bias) || bias == kInfinity; });
}

bool Float64Row::NeedsFloat64(float query_norm, KeyRange range) const {
  for (int64_t i = 0; i < range.size(); ++i) {
    const float bound = query_norm * tile_.worker.head.Norm(range.begin + i);
    if (IsVisible(i) && !(bound < kLargestSafeBound)) return true;
  }
  return false;
}

// Returns false if a number of the query is not finite.
bool Float64Row::ReadQuery(int64_t query) {
  const float* numbers = Read(tile_.queries, query);
  if (!AllFinite(numbers, tile_.head_dim(), 1)) {
    Flag(FormulaTensor::kQuery);
    return false;
  }
  const auto scale = static_cast<double>(tile_.call.options.scale);
  query_.resize(tile_.head_dim());
  for (size_t i = 0; i < query_.size(); ++i) {
    query_[i] = RoundedToOperand(static_cast<double>(numbers[i]) * scale, tile_.operands());
  }
  return true;
}

// Computes the scores of visible keys, with soft cap and bias. Returns false if a number of a key is not finite.
bool Float64Row::Score(KeyRange range) {
  const AttentionOptions& options = tile_.call.options;
  const auto softcap = static_cast<double>(options.softcap);
  scores_.resize(range.size());
  for (int64_t i = 0; i < range.size(); ++i) {
    if (!IsVisible(i)) continue;
    const float* key = Read(tile_.worker.head.key_rows(), range.begin + i);
    if (!AllFinite(key, tile_.head_dim(), 1)) {
      Flag(FormulaTensor::kKey);
      return false;
    }
    for (float& number : token_) number = RoundedToOperand(number, tile_.operands());
    double score = DotProduct(query_.data(), key, tile_.head_dim());
    if (softcap != 0) score = softcap * std::tanh(score / softcap);
    scores_[i] = score + static_cast<double>(bias_[i]);
    if (!(std::abs(scores_[i]) <= kLargest)) Flag(FormulaTensor::kMaskedScores);
  }
  return true;
}

// The numbers of a token, valid until the next call.
const float* Float64Row::Read(const HeadRows& rows, int64_t token) {
  token_.resize(rows.size);
  rows.Read(token, 1, token_.data(), rows.size);
  return token_.data();
}

bool Float64Row::IsVisible(int64_t index) const { return bias_[index] != -kInfinity; }

void Float64Row::Flag(FormulaTensor tensor) const {
  const bool is_returned = tensor != FormulaTensor::kMaskedScores || tile_.call.extra_outputs.masked_scores != nullptr;
  if (is_returned) tile_.call.AddNonFinite(tensor);
}

}  // namespace attention::server
