#pragma once

#include "server/engine/layer.h"

namespace attention::server {

// Has oneDNN compile what requests for such a layer need, so that none of them waits for it. The shapes are closed,
// since tiles and chunks come in few sizes (tile_plan.h): some two thousand primitives, 100 MiB and a quarter of a
// second for the first layer whose heads have these sizes, then
// nothing. oneDNN keeps them for all threads. What is left to the request that first needs it: the softmax of rows
// beyond kMostSoftmaxKeys keys, which takes a millisecond beside the seconds of such a request.
//
// On the calling thread alone. Thread-safe. Throws dnnl::error or std::bad_alloc.
void WarmUp(const LayerShape& shape);

inline constexpr int64_t kMostSoftmaxKeys = 16384;

// Primitives that WarmUp has made since the process began.
int64_t WarmPrimitives();

}  // namespace attention::server
