#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "server/engine/onednn/onednn.h"

// Descriptors of the primitives: shapes, types and attributes. Only these functions depend on the version of oneDNN.
namespace attention::server {

inline constexpr auto kFloat = dnnl::memory::data_type::f32;

dnnl::memory::desc RowMajor(int64_t rows, int64_t columns, dnnl::memory::data_type type = kFloat);
dnnl::memory::desc ColumnMajor(int64_t rows, int64_t columns, dnnl::memory::data_type type);

// True if oneDNN supports bfloat16 on this CPU.
bool HasBFloat16();

// The caller provides the scratchpad, and products have the precision of their operands.
dnnl::primitive_attr Attributes();

dnnl::matmul::primitive_desc MatmulDescriptor(const dnnl::engine& engine, const MatmulShape& shape,
                                              dnnl::memory::data_type src_type, const dnnl::memory::desc& weights);

// Softmax over the last axis, in place.
dnnl::softmax_forward::primitive_desc SoftmaxDescriptor(const dnnl::engine& engine, const dnnl::memory::desc& scores);

dnnl::eltwise_forward::primitive_desc TanhDescriptor(const dnnl::engine& engine, const dnnl::memory::desc& numbers);

}  // namespace attention::server
