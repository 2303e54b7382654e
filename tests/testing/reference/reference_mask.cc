#include "tests/testing/reference/reference_mask.h"

#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

// Wide enough for any sum of offsets, lengths and window sizes.
using Wide = __int128;

// Decides whether a query sees a key.
class Visibility {
 public:
  Visibility(const v1::Mask& mask, int64_t q_length, int64_t kv_length)
      : mask_(mask), q_length_(q_length), kv_length_(kv_length) {
    if (mask.has_q_segment_ids()) {
      q_ids_ = ClientTensor(mask.q_segment_ids()).Integers();
      kv_ids_ = mask.has_kv_segment_ids() ? ClientTensor(mask.kv_segment_ids()).Integers() : q_ids_;
    }
  }

  bool Sees(int64_t sequence, int64_t query, int64_t key) const {
    return key < KvLength(sequence) && SeesCausally(sequence, query, key) && SeesInWindow(sequence, query, key) &&
           SameSegment(sequence, query, key);
  }

 private:
  int64_t QLength(int64_t sequence) const {
    return mask_.q_lengths().empty() ? q_length_ : mask_.q_lengths(static_cast<int>(sequence));
  }
  int64_t KvLength(int64_t sequence) const {
    return mask_.kv_lengths().empty() ? kv_length_ : mask_.kv_lengths(static_cast<int>(sequence));
  }

  // The index of the key on the diagonal for a query.
  Wide DiagonalKey(const v1::Diagonal& diagonal, int64_t sequence, int64_t query) const {
    Wide offset = 0;
    if (diagonal.has_offset()) offset = diagonal.offset();
    if (diagonal.corner() == v1::Diagonal::CORNER_BOTTOM_RIGHT) offset = KvLength(sequence) - QLength(sequence);
    return query + offset;
  }

  bool SeesCausally(int64_t sequence, int64_t query, int64_t key) const {
    return !mask_.has_causal() || key <= DiagonalKey(mask_.causal(), sequence, query);
  }

  bool SeesInWindow(int64_t sequence, int64_t query, int64_t key) const {
    if (!mask_.has_window()) return true;
    const v1::SlidingWindow& window = mask_.window();
    const Wide distance = key - DiagonalKey(window.diagonal(), sequence, query);
    const bool all_left = !window.has_left() || window.left() == -1;
    const bool all_right = !window.has_right() || window.right() == -1;
    return (all_left || -distance <= window.left()) && (all_right || distance <= window.right());
  }

  bool SameSegment(int64_t sequence, int64_t query, int64_t key) const {
    if (q_ids_.empty()) return true;
    const int64_t q_row = static_cast<int64_t>(q_ids_.size()) == q_length_ ? 0 : sequence;
    const int64_t kv_row = static_cast<int64_t>(kv_ids_.size()) == kv_length_ ? 0 : sequence;
    return q_ids_[q_row * q_length_ + query] == kv_ids_[kv_row * kv_length_ + key];
  }

  const v1::Mask& mask_;
  const int64_t q_length_;
  const int64_t kv_length_;
  std::vector<int64_t> q_ids_;
  std::vector<int64_t> kv_ids_;
};

}  // namespace

std::vector<uint8_t> DenseMask(const v1::Mask& mask, absl::Span<const int64_t> scores_shape) {
  const size_t rank = scores_shape.size();
  const int64_t num_heads = scores_shape[rank - 3];
  const int64_t q_length = scores_shape[rank - 2];
  const int64_t kv_length = scores_shape[rank - 1];
  int64_t count = 1;
  for (int64_t size : scores_shape) count *= size;
  std::vector<uint8_t> result(count, 1);
  if (mask.has_dense()) {
    const v1::Tensor& dense = mask.dense();
    result = Broadcast(std::vector<uint8_t>(dense.data().begin(), dense.data().end()),
                       {dense.shape().data(), static_cast<size_t>(dense.shape_size())}, scores_shape);
  }
  const Visibility visibility(mask, q_length, kv_length);
  for (int64_t element = 0; element < count; ++element) {
    const int64_t row = element / kv_length;
    const int64_t sequence = row / q_length / num_heads;
    if (!visibility.Sees(sequence, row % q_length, element % kv_length)) result[element] = 0;
  }
  return result;
}

}  // namespace attention::test
