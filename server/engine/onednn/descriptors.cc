#include "server/engine/onednn/descriptors.h"

namespace attention::server {
namespace {

using dnnl::memory;

void AppendExp(dnnl::post_ops& post_ops) {
#if DNNL_VERSION_MAJOR >= 3
  post_ops.append_eltwise(dnnl::algorithm::eltwise_exp, 0.f, 0.f);
#else
  post_ops.append_eltwise(1.f, dnnl::algorithm::eltwise_exp, 0.f, 0.f);
#endif
}

dnnl::primitive_attr AttributesOf(const MatmulShape& shape) {
  dnnl::primitive_attr attributes = Attributes();
  dnnl::post_ops post_ops;
  if (shape.accumulate) post_ops.append_sum(1.f);
  if (shape.exponential) AppendExp(post_ops);
  attributes.set_post_ops(post_ops);
  return attributes;
}

bool Has(dnnl::cpu_isa isa) {
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(isa)) == static_cast<int>(isa);
}

}  // namespace

memory::desc RowMajor(int64_t rows, int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, memory::format_tag::ab};
}
memory::desc ColumnMajor(int64_t rows, int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, memory::format_tag::ba};
}

// The oldest instruction set for which oneDNN supports bfloat16. It emulates the bfloat16 instructions if necessary.
bool HasBFloat16() { return Has(dnnl::cpu_isa::avx512_core); }

bool MultipliesBFloat16() { return Has(dnnl::cpu_isa::avx512_core_bf16); }

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

dnnl::matmul::primitive_desc MatmulDescriptor(const dnnl::engine& engine, const MatmulShape& shape,
                                              memory::data_type src_type, const memory::desc& weights) {
  const memory::desc src = RowMajor(shape.m, shape.k, src_type);
  const memory::desc bias = shape.with_bias ? RowMajor(1, shape.n) : memory::desc();
  const memory::desc dst = RowMajor(shape.m, shape.n);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, src, weights, bias, dst, AttributesOf(shape)};
#else
  return {{src, weights, bias, dst}, AttributesOf(shape), engine};
#endif
}

dnnl::softmax_forward::primitive_desc SoftmaxDescriptor(const dnnl::engine& engine, const memory::desc& scores) {
  constexpr auto kForward = dnnl::prop_kind::forward_inference;
  constexpr int kAxis = 1;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kForward, dnnl::algorithm::softmax_accurate, scores, scores, kAxis, Attributes()};
#else
  return {{kForward, scores, kAxis}, Attributes(), engine};
#endif
}

dnnl::eltwise_forward::primitive_desc TanhDescriptor(const dnnl::engine& engine, const memory::desc& numbers) {
  constexpr auto kForward = dnnl::prop_kind::forward_inference;
  constexpr auto kTanh = dnnl::algorithm::eltwise_tanh;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kForward, kTanh, numbers, numbers, 0.f, 0.f, Attributes()};
#else
  return {{kForward, kTanh, numbers, 0.f, 0.f}, Attributes(), engine};
#endif
}

}  // namespace attention::server
