#include "tests/bench/roofline_primitive.h"

#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

namespace attention::bench {
namespace {

using dnnl::memory;
using server::DType;

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

dnnl::matmul::primitive_desc MatmulDescriptor(const dnnl::engine& engine, DType operands, int64_t height,
                                              int64_t size) {
  const auto type = operands == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc src({height, size}, type, memory::format_tag::ab);
  const memory::desc weights({size, size}, type, memory::format_tag::any);
  const memory::desc dst({height, size}, memory::data_type::f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, src, weights, dst, Attributes()};
#else
  return {{src, weights, dst}, Attributes(), engine};
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

// Bytes of ordinary numbers, float32 as bfloat16: from 0.5 to 1, no denormals.
void Fill(const memory& numbers) {
  const size_t bytes = numbers.get_desc().get_size();
  auto* to = static_cast<unsigned char*>(numbers.get_data_handle());
  for (size_t i = 0; i < bytes; ++i) to[i] = i % 2 == 1 ? 0x3f : static_cast<unsigned char>(i * 37 % 127);
}

}  // namespace

struct RooflinePrimitive::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;

  void Add(int argument, const memory::desc& desc) {
    memory numbers(desc, engine);
    Fill(numbers);
    arguments.emplace(argument, std::move(numbers));
  }
};

RooflinePrimitive::RooflinePrimitive(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

RooflinePrimitive RooflinePrimitive::Matmul(DType operands, int64_t height, int64_t size) {
  omp_set_num_threads(1);
  auto impl = std::make_shared<Impl>();
  dnnl::matmul::primitive_desc descriptor;
  try {
    descriptor = MatmulDescriptor(impl->engine, operands, height, size);
  } catch (const dnnl::error& error) {
    if (operands != DType::kBFloat16 || error.status != dnnl_unimplemented) throw;
    descriptor = MatmulDescriptor(impl->engine, DType::kFloat32, height, size);
  }
  impl->primitive = dnnl::matmul(descriptor);
  impl->Add(DNNL_ARG_SRC, descriptor.src_desc());
  impl->Add(DNNL_ARG_WEIGHTS, descriptor.weights_desc());
  impl->Add(DNNL_ARG_DST, descriptor.dst_desc());
  impl->Add(DNNL_ARG_SCRATCHPAD, descriptor.scratchpad_desc());
  return RooflinePrimitive(std::move(impl));
}

RooflinePrimitive RooflinePrimitive::Softmax(int64_t rows, int64_t columns) {
  omp_set_num_threads(1);
  auto impl = std::make_shared<Impl>();
  const memory::desc scores({rows, columns}, memory::data_type::f32, memory::format_tag::ab);
  const auto descriptor = SoftmaxDescriptor(impl->engine, scores);
  impl->primitive = dnnl::softmax_forward(descriptor);
  impl->Add(DNNL_ARG_SRC, scores);
  impl->arguments.emplace(DNNL_ARG_DST, impl->arguments.at(DNNL_ARG_SRC));
  impl->Add(DNNL_ARG_SCRATCHPAD, descriptor.scratchpad_desc());
  return RooflinePrimitive(std::move(impl));
}

void RooflinePrimitive::Run() {
  omp_set_num_threads(1);
  impl_->primitive.execute(impl_->stream, impl_->arguments);
  impl_->stream.wait();
}

}  // namespace attention::bench
