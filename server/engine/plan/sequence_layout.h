#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/engine/attention_call.h"
#include "server/engine/projection/projection.h"

namespace attention::server {

// How the needed rows of one call's sequences stand end to end.
struct SequenceLayout {
  int64_t rows = 0;                                                  // of all sequences
  int64_t rows_per_sequence = 0;                                     // where all have the same
  std::shared_ptr<const std::vector<int64_t>> first_rows = nullptr;  // where they have not: the first row of each

  int64_t RowsOf(int64_t sequence) const;
};

// The three layouts of one call: of query, of key and value, and of the context.
struct CallLayout {
  const AttentionCall* call = nullptr;
  SequenceLayout queries;
  SequenceLayout keys;
  SequenceLayout contexts;
};

CallLayout LayOut(const AttentionCall& call);

// The rows of `layout` in a tensor [batch, length, features] where every sequence has room for `length`.
std::vector<RowSegment> SegmentsOf(const TensorView& tensor, const SequenceLayout& layout);

}  // namespace attention::server
