#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/layouts/layers.h"

namespace attention::server {

// What the layouts share whose kernels are matrices [features out, features in], as torch.nn.Linear has them.

// A kernel that is all rows of its matrix, and a bias that is a whole vector or null. Their shapes are not set yet.
// INVALID_ARGUMENT if they have other axes.
absl::StatusOr<ProjectionSources> WholeMatrix(const NamedTensor& matrix, const NamedTensor* bias);

// A kernel without a shape yet that is rows [begin, end) of a matrix. REQUIRES: the matrix has two axes.
ParameterSource MatrixRows(const NamedTensor& matrix, int64_t begin, int64_t end);

// Cuts the features out of each projection of a layer into heads, and sets the shapes of its parameters. The query's
// rows make head_dim, with that the key's rows make num_kv_heads, and with these the value's make value_head_dim.
// INVALID_ARGUMENT if one does not divide the other, or num_heads is not known.
// REQUIRES: the kernels and biases of the layer are those of WholeMatrix, or rows of such.
absl::Status SetHeads(const absl::StatusOr<int64_t>& num_heads, LayerTensors& layer);

}  // namespace attention::server
