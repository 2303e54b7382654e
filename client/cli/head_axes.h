#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/numbers.h"

namespace attention::cli {

// Brings the heads of a tensor of attention without projections to [batch…, length, heads, width], which is the shape
// of query, key, value and context in a reply. INVALID_ARGUMENT if the tensor has not so many heads in those axes.
absl::StatusOr<Numbers> ToLengthHeads(const Numbers& tensor, HeadAxes axes, int64_t heads);

// "[batch…, length, heads, head_dim]"
const char* AxesText(HeadAxes axes);

struct HeadSizes {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
};

// "8 heads of 64 numbers", and where they differ "…, 2 heads of keys and values, values of 32 numbers".
std::string HeadsText(const HeadSizes& sizes);

}  // namespace attention::cli
