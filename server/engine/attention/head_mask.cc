#include "server/engine/attention/head_mask.h"

#include <algorithm>
#include <limits>

namespace attention::server {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t OffsetOf(const ScoresTensor& tensor, int64_t sequence, int64_t head) {
  return tensor.batch_offsets[sequence] + head * tensor.head_stride;
}

// Sets the hidden scores to −∞. Returns whether any score is visible.
bool Hide(const uint8_t* visible, int64_t count, float* scores) {
  uint8_t any = 0;
  for (int64_t key = 0; key < count; ++key) {
    scores[key] = visible[key] != 0 ? scores[key] : -kInfinity;
    any |= visible[key];
  }
  return any != 0;
}

}  // namespace

HeadMask::HeadMask(const AttentionCall& call, int64_t sequence, int64_t head)
    : call_(call), limits_(call.LimitsOf(sequence)) {
  const AttentionMask& mask = call.mask;
  if (mask.dense.data != nullptr) {
    dense_ = reinterpret_cast<const uint8_t*>(mask.dense.data) + OffsetOf(mask.dense, sequence, head);
  }
  if (!mask.segments.empty()) {
    q_segments_ = mask.segments.q.data() + sequence * mask.segments.q_batch_stride;
    kv_segments_ = mask.segments.kv.data() + sequence * mask.segments.kv_batch_stride;
  }
  if (call.bias.data != nullptr) bias_offset_ = OffsetOf(call.bias, sequence, head);
}

KeyRange HeadMask::TileRange(int64_t first_query, int64_t queries) const {
  if (call_.options.compute_hidden) return {0, call_.shape.kv_length};
  KeyRange range;
  for (int64_t query = first_query; query < first_query + queries; ++query) {
    range = Union(range, RowRange(query));
    if (range.size() == limits_.kv_length) break;
  }
  return range;
}

KeyRange HeadMask::RowRange(int64_t query) const {
  KeyRange range = limits_.RangeOf(query);
  if (dense_ == nullptr && q_segments_ == nullptr) return range;
  while (!range.empty() && !Sees(query, range.begin)) ++range.begin;
  while (!range.empty() && !Sees(query, range.end - 1)) --range.end;
  return range;
}

bool HeadMask::Sees(int64_t query, int64_t key) const {
  const ScoresTensor& dense = call_.mask.dense;
  if (dense_ != nullptr && dense_[query * dense.q_stride + key * dense.kv_stride] == 0) return false;
  return q_segments_ == nullptr || q_segments_[query] == kv_segments_[key];
}

bool HeadMask::Apply(int64_t query, KeyRange keys, int64_t columns, float* scores, MaskScratch& scratch) const {
  KeyRange range = limits_.RangeOf(query);
  range = {std::max(range.begin, keys.begin), std::min(range.end, keys.end)};
  if (range.empty()) {
    std::fill_n(scores, columns, -kInfinity);
    return false;
  }
  float* in_range = scores + (range.begin - keys.begin);
  std::fill(scores, in_range, -kInfinity);
  std::fill(in_range + range.size(), scores + columns, -kInfinity);
  const uint8_t* visible = VisibleKeys(query, range, scratch);
  if (call_.bias.data != nullptr) visible = AddBias(query, range, visible, in_range, scratch);
  return visible == nullptr || Hide(visible, range.size(), in_range);
}

// One byte per key of `range`, not 0 if the mask shows it; null if it shows all.
const uint8_t* HeadMask::VisibleKeys(int64_t query, KeyRange range, MaskScratch& scratch) const {
  const ScoresTensor& dense = call_.mask.dense;
  const uint8_t* row = dense_ == nullptr ? nullptr : dense_ + query * dense.q_stride + range.begin * dense.kv_stride;
  if (q_segments_ == nullptr && (row == nullptr || dense.kv_stride == 1)) return row;

  scratch.visible.resize(range.size());
  uint8_t* visible = scratch.visible.data();
  for (int64_t key = 0; key < range.size(); ++key) visible[key] = row == nullptr ? 1 : row[key * dense.kv_stride];
  if (q_segments_ == nullptr) return visible;
  const int64_t* ids = kv_segments_ + range.begin;
  for (int64_t key = 0; key < range.size(); ++key) visible[key] &= static_cast<uint8_t>(ids[key] == q_segments_[query]);
  return visible;
}

// Adds the bias to the scores. Returns `visible` without the keys whose bias is −∞.
const uint8_t* HeadMask::AddBias(int64_t query, KeyRange range, const uint8_t* visible, float* scores,
                                 MaskScratch& scratch) const {
  const ScoresTensor& tensor = call_.bias;
  const int64_t offset = bias_offset_ + query * tensor.q_stride + range.begin * tensor.kv_stride;
  float* bias = scratch.bias.Reserve(range.size());
  const int64_t count = tensor.kv_stride == 0 ? 1 : range.size();
  ToFloat32(tensor.dtype, tensor.data + offset * DTypeSize(tensor.dtype), count, bias);
  std::fill(bias + count, bias + range.size(), bias[0]);

  if (visible == nullptr) {
    scratch.visible.assign(range.size(), 1);
  } else if (visible != scratch.visible.data()) {
    scratch.visible.assign(visible, visible + range.size());
  }
  for (int64_t key = 0; key < range.size(); ++key) {
    scratch.visible[key] &= static_cast<uint8_t>(bias[key] != -kInfinity);
    scores[key] += bias[key];
  }
  return scratch.visible.data();
}

}  // namespace attention::server
