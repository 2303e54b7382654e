#pragma once

#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::cli {

// The same layers in the layout of flax: PATH/query/kernel and so on, and their self-tests. A layer whose tensors are
// all of one float type keeps that, bit for bit; any other becomes float32. Where some of the four biases are missing,
// they are written as zeros, since flax has all or none.
//
// Points into the tensors of the layers where it can, else into storage of its own. The metadata say that it is flax,
// and keep the tolerance of the self-tests.
server::TensorMap InFlaxLayout(const server::CheckpointLayers& checkpoint);

}  // namespace attention::cli
