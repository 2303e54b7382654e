#pragma once

#include <cstdint>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "server/engine/layer.h"
#include "tests/testing/reference_attention.h"

namespace attention::test {

// The heads that a request without projections says it has. REQUIRES: a request that the server would accept.
server::HeadShape HeadsOf(const v1::AttendRequest& request);

// The axes of the batch. The layout of the heads, if there is one, says how many the others are.
std::vector<int64_t> BatchAxes(const v1::AttendRequest& request);

// [batch…, num_heads, q_length, kv_length].
std::vector<int64_t> ScoresShape(const v1::AttendRequest& request, const server::HeadShape& heads);

// That of the output; `layer` is null without projections.
std::vector<int64_t> OutputShape(const v1::AttendRequest& request, const server::LayerShape* layer);

// [batch, length, heads, width] with the axes that a request without projections names, and back.
std::vector<double> ToLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                             v1::HeadLayout::Axes axes);
std::vector<double> FromLayout(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                               v1::HeadLayout::Axes axes);

// What the reference answers to a request: `layer` is that of the weight set, or null without projections. The output
// has the layout that the request names. REQUIRES: a request that the server would accept.
ReferenceOutputs ReferenceAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer);

}  // namespace attention::test
