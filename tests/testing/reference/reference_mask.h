#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/v1/attention.pb.h"

namespace attention::test {

// Broadcasts numbers from shape `from` to shape `to`, as attention.v1.Mask.dense and the bias are: axes that are
// missing on the left or have size 1 are repeated. REQUIRES: `from` broadcasts to `to`.
template <typename Number>
std::vector<Number> Broadcast(const std::vector<Number>& numbers, absl::Span<const int64_t> from,
                              absl::Span<const int64_t> to) {
  int64_t count = 1;
  for (int64_t size : to) count *= size;
  std::vector<Number> result(count);
  const size_t missing = to.size() - from.size();
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element;
    int64_t source = 0;
    int64_t stride = 1;
    for (size_t axis = to.size(); axis-- > missing;) {
      const int64_t size = from[axis - missing];
      if (size != 1) source += rest % to[axis] * stride;
      rest /= to[axis];
      stride *= size;
    }
    result[element] = numbers[source];
  }
  return result;
}

// Combines all parts of the mask except q_lengths into one dense mask, 1 = visible. Follows the text of the proto file
// literally, element by element. `scores_shape` and the result's shape are [batch…, num_heads, q_length, kv_length].
// REQUIRES: the server would accept the mask; kv_segment_ids are omitted only if inputs_k is.
std::vector<uint8_t> DenseMask(const v1::Mask& mask, absl::Span<const int64_t> scores_shape);

}  // namespace attention::test
