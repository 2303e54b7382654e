#pragma once

#include "server/engine/layer.h"

namespace attention::server {

// Has oneDNN compile what float32 requests for such a layer need, so that none of them waits for it. The shapes are
// closed, since tiles and chunks come in few sizes (tile_plan.h): some thousand primitives, 50 MiB, and a tenth of a
// second for the first layer whose heads have these sizes, then nothing. oneDNN keeps them for all threads.
//
// On the calling thread alone. Thread-safe. Throws dnnl::error or std::bad_alloc.
void WarmUp(const LayerShape& shape);

}  // namespace attention::server
