#pragma once

#include <cstdint>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "server/engine/layer.h"
#include "tests/testing/reference/reference_attention.h"

namespace attention::test {

// The heads of a request without a weight set. REQUIRES: the server would accept the request.
server::HeadShape HeadsOf(const v1::AttendRequest& request);

// The sizes of the batch axes. The number of other axes depends on the head layout, if there is one.
std::vector<int64_t> BatchAxes(const v1::AttendRequest& request);

// [batch…, num_heads, q_length, kv_length].
std::vector<int64_t> ScoresShape(const v1::AttendRequest& request, const server::HeadShape& heads);

// The shape of the output. `layer` is null for a request without a weight set.
std::vector<int64_t> OutputShape(const v1::AttendRequest& request, const server::LayerShape* layer);

// Converts [batch, length, heads, width] to the axes of a request without a weight set, and back.
std::vector<double> ToLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                             v1::HeadLayout::Axes axes);
std::vector<double> FromLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                               v1::HeadLayout::Axes axes);

// The outputs of the reference for a request. `layer` is null for a request without a weight set. The output has the
// layout of the request. REQUIRES: the server would accept the request.
ReferenceOutputs ReferenceAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer);

}  // namespace attention::test
