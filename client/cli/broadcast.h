#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// Spreads a tensor to `shape`, [batch…, num_heads, q_length, kv_length], aligned at the right: an axis of size 1, or
// one that is missing on the left, holds for all. Row-major. INVALID_ARGUMENT if an axis is neither 1 nor that of
// `shape`.
absl::StatusOr<std::vector<double>> Broadcast(const Numbers& tensor, absl::Span<const int64_t> shape);

}  // namespace attention::cli
