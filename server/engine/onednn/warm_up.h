#pragma once

#include <cstdint>

#include "server/checkpoint/layer_parameters.h"

namespace attention::server {

// Creates the oneDNN primitives that requests for a layer need, so that no request waits for a compilation. The set of
// shapes is closed (tile_shapes.h): about two thousand primitives, 100 MiB and a quarter of a second for the first
// layer with these head sizes, and nothing for the next. oneDNN keeps the compiled kernels for all threads. Not
// created: the softmax of rows of more than kMaxSoftmaxKeys keys. It takes a millisecond in a request that takes
// seconds.
//
// Works on the calling thread only. Thread-safe. Throws dnnl::error or std::bad_alloc.
void WarmUp(const LayerShape& shape);

inline constexpr int64_t kMaxSoftmaxKeys = 16384;

// Number of primitives that WarmUp has created since the process started.
int64_t WarmPrimitives();

}  // namespace attention::server
