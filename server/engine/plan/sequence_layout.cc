#include "server/engine/plan/sequence_layout.h"

namespace attention::server {
namespace {

template <typename RowsOfSequence>
SequenceLayout LayOutRows(const AttentionCall& call, RowsOfSequence rows_of) {
  if (call.batch == 0) return {};
  if (call.mask.limits.size() <= 1) {
    const int64_t rows = rows_of(0);
    return {.rows = call.batch * rows, .rows_per_sequence = rows};
  }
  auto first_rows = std::make_shared<std::vector<int64_t>>();
  first_rows->reserve(call.batch);
  SequenceLayout layout;
  for (int64_t sequence = 0; sequence < call.batch; ++sequence) {
    first_rows->push_back(layout.rows);
    layout.rows += rows_of(sequence);
  }
  layout.first_rows = std::move(first_rows);
  return layout;
}

}  // namespace

int64_t SequenceLayout::RowsOf(int64_t sequence) const {
  if (first_rows == nullptr) return rows_per_sequence;
  const auto next = static_cast<size_t>(sequence) + 1;
  return (next == first_rows->size() ? rows : (*first_rows)[next]) - (*first_rows)[sequence];
}

CallLayout LayOut(const AttentionCall& call) {
  return {.call = &call,
          .queries = LayOutRows(call, [&](int64_t sequence) { return NeededRows(call, sequence).queries; }),
          .keys = LayOutRows(call, [&](int64_t sequence) { return NeededRows(call, sequence).keys; }),
          .contexts = LayOutRows(call, [&](int64_t sequence) { return call.LimitsOf(sequence).q_length; })};
}

std::vector<RowSegment> SegmentsOf(const TensorView& tensor, const SequenceLayout& layout) {
  const int64_t length = tensor.shape[1];
  if (layout.first_rows == nullptr && layout.rows_per_sequence == length) {
    return {{tensor.dtype, tensor.data, layout.rows}};
  }
  std::vector<RowSegment> segments;
  const int64_t bytes = length * tensor.shape[2] * DTypeSize(tensor.dtype);
  for (int64_t sequence = 0; sequence < tensor.shape[0]; ++sequence) {
    segments.push_back({tensor.dtype, tensor.data + sequence * bytes, layout.RowsOf(sequence)});
  }
  return segments;
}

}  // namespace attention::server
