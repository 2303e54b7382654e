#include "tests/bench/roofline_primitive.h"

#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "server/engine/onednn/descriptors.h"

namespace attention::bench {
namespace {

using dnnl::memory;
using server::DType;

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
  // Where oneDNN has no bfloat16 the engine multiplies float32.
  const bool is_bfloat16 = operands == DType::kBFloat16 && server::HasBFloat16();
  const auto type = is_bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc weights({size, size}, type, memory::format_tag::any);
  const auto descriptor = server::MatmulDescriptor(impl->engine, {.m = height, .k = size, .n = size}, type, weights);
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
  const memory::desc scores = server::RowMajor(rows, columns);
  const auto descriptor = server::SoftmaxDescriptor(impl->engine, scores);
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
