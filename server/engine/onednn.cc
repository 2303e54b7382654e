#include "server/engine/onednn.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/engine/buffer.h"
#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

constexpr auto kFloat = memory::data_type::f32;

memory::desc RowMajor(int64_t rows, int64_t columns, memory::data_type type = kFloat) {
  return {{rows, columns}, type, memory::format_tag::ab};
}
memory::desc ColumnMajor(int64_t rows, int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, memory::format_tag::ba};
}

// The oldest instruction set for which oneDNN has bfloat16; where the CPU has no such instructions it works around.
bool HasBFloat16() {
  constexpr int kWanted = static_cast<int>(dnnl::cpu_isa::avx512_core);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

// The four functions in which oneDNN 2 and 3 differ.
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

struct ShapeHash {
  size_t operator()(const MatmulShape& s) const {
    return absl::HashOf(s.m, s.k, s.n, s.with_bias, s.operands, s.accumulate, s.exponential);
  }
};

// A primitive with its arguments: making a memory object costs more than a small matmul, pointing it elsewhere nothing.
struct Prepared {
  dnnl::primitive primitive;
  Arguments arguments;
  int64_t scratchpad_bytes = 0;
};

// The entry of `key`, made if it is not there yet; nothing is entered if `make` throws.
template <typename Map, typename Make>
typename Map::mapped_type& Cached(Map& map, const typename Map::key_type& key, Make make) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map.emplace(key, make()).first->second;
}

}  // namespace

struct Onednn::Impl {
  // Weights [k, n] of these operands, from or to their packed layout.
  enum class Reordering { kPack, kPackTransposed, kUnpack };
  using WeightsKey = std::tuple<int64_t, int64_t, DType>;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  const bool has_bfloat16 = HasBFloat16();
  Buffer scratchpad;
  Buffer rounded;
  absl::flat_hash_map<MatmulShape, Prepared, ShapeHash> matmuls;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Prepared> softmaxes;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Prepared> tanhs;
  absl::flat_hash_map<std::pair<WeightsKey, Reordering>, Prepared> reorders;
  absl::flat_hash_map<WeightsKey, memory::desc> packed_layouts;

  bool is_bfloat16(DType operands) const { return operands == DType::kBFloat16 && has_bfloat16; }
  // Rounded numbers that are kept as float32.
  bool is_emulated(DType operands) const { return operands == DType::kBFloat16 && !has_bfloat16; }

  memory::data_type TypeOf(DType operands) const {
    return is_bfloat16(operands) ? memory::data_type::bf16 : memory::data_type::f32;
  }

  memory Unbound(const memory::desc& desc) { return {desc, engine, nullptr}; }

  // The layout is that of the tallest tile, so that tiles of every height read the same packed weights.
  const memory::desc& PackedLayout(int64_t k, int64_t n, DType operands) {
    return Cached(packed_layouts, {k, n, operands}, [&] {
      const memory::desc any({k, n}, TypeOf(operands), memory::format_tag::any);
      return MatmulDescriptor(engine, {kTileRows, k, n}, TypeOf(operands), any).weights_desc();
    });
  }

  dnnl::matmul::primitive_desc DescriptorOf(const MatmulShape& shape) {
    return MatmulDescriptor(engine, shape, TypeOf(shape.operands), PackedLayout(shape.k, shape.n, shape.operands));
  }

  Prepared& MatmulFor(const MatmulShape& shape) {
    return Cached(matmuls, shape, [&] {
      const auto descriptor = DescriptorOf(shape);
      Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())},
                          {DNNL_ARG_WEIGHTS, Unbound(descriptor.weights_desc())},
                          {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
      if (shape.with_bias) arguments.emplace(DNNL_ARG_BIAS, Unbound(descriptor.bias_desc()));
      return Prepare(dnnl::matmul(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  // A primitive of one matrix [rows, columns] in and one out.
  template <typename Primitive, typename Descriptor>
  Prepared Mapping(const Descriptor& descriptor) {
    Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())}, {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
    return Prepare(Primitive(descriptor), std::move(arguments), descriptor.scratchpad_desc());
  }

  Prepared& ReorderFor(int64_t k, int64_t n, DType operands, Reordering reordering) {
    return Cached(reorders, {{k, n, operands}, reordering}, [&] {
      const memory::desc plain =
          reordering == Reordering::kPackTransposed ? ColumnMajor(k, n, kFloat) : RowMajor(k, n, kFloat);
      const memory::desc& packed = PackedLayout(k, n, operands);
      const bool unpack = reordering == Reordering::kUnpack;
      const memory::desc& from = unpack ? packed : plain;
      const memory::desc& to = unpack ? plain : packed;
      const dnnl::reorder::primitive_desc descriptor(engine, from, engine, to, Attributes());
      Arguments arguments{{DNNL_ARG_FROM, Unbound(from)}, {DNNL_ARG_TO, Unbound(to)}};
      return Prepare(dnnl::reorder(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  Prepared Prepare(dnnl::primitive primitive, Arguments arguments, const memory::desc& scratch) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, Unbound(scratch));
    return {std::move(primitive), std::move(arguments), static_cast<int64_t>(scratch.get_size())};
  }

  void Reorder(Prepared& reorder, const void* from, void* to) {
    Bind(reorder, DNNL_ARG_FROM, from);
    Bind(reorder, DNNL_ARG_TO, to);
    Execute(reorder);
  }

  void Pack(const WeightsKey& key, Reordering reordering, const float* from, void* packed) {
    const auto [k, n, operands] = key;
    if (is_emulated(operands)) from = Rounded(k * n, from, rounded);
    Reorder(ReorderFor(k, n, operands, reordering), from, packed);
  }

  // Rounded to bfloat16 and widened again.
  static const float* Rounded(int64_t count, const float* numbers, Buffer& buffer) {
    float* wide = buffer.Reserve(count + (count + 1) / 2);
    auto* narrow = reinterpret_cast<std::byte*>(wide + count);
    FromFloat32(numbers, count, DType::kBFloat16, narrow);
    ToFloat32(DType::kBFloat16, narrow, count, wide);
    return wide;
  }

  // oneDNN takes pointers to mutable data also for what it only reads.
  static void Bind(Prepared& prepared, int argument, const void* data) {
    prepared.arguments.at(argument).set_data_handle(const_cast<void*>(data));
  }

  void Execute(Prepared& prepared) {
    constexpr int64_t kFloatBytes = sizeof(float);
    Bind(prepared, DNNL_ARG_SCRATCHPAD,
         scratchpad.Reserve((prepared.scratchpad_bytes + kFloatBytes - 1) / kFloatBytes));
    prepared.primitive.execute(stream, prepared.arguments);
    stream.wait();
  }
};

Onednn::Onednn() : impl_(std::make_unique<Impl>()) { omp_set_num_threads(1); }

Onednn::~Onednn() = default;

int64_t Onednn::PackedBytes(int64_t k, int64_t n, DType operands) {
  return static_cast<int64_t>(impl_->PackedLayout(k, n, operands).get_size());
}

void Onednn::Pack(int64_t k, int64_t n, DType operands, const float* weights, void* packed) {
  impl_->Pack({k, n, operands}, Impl::Reordering::kPack, weights, packed);
}

void Onednn::PackTransposed(int64_t k, int64_t n, DType operands, const float* matrix, void* packed) {
  impl_->Pack({k, n, operands}, Impl::Reordering::kPackTransposed, matrix, packed);
}

void Onednn::Unpack(int64_t k, int64_t n, const void* packed, float* weights) {
  impl_->Reorder(impl_->ReorderFor(k, n, DType::kFloat32, Impl::Reordering::kUnpack), packed, weights);
}

const void* Onednn::Operand(DType operands, int64_t count, const float* numbers, Buffer& buffer) const {
  if (operands == DType::kFloat32) return numbers;
  if (impl_->is_emulated(operands)) return Impl::Rounded(count, numbers, buffer);
  float* narrow = buffer.Reserve((count + 1) / 2);
  FromFloat32(numbers, count, DType::kBFloat16, reinterpret_cast<std::byte*>(narrow));
  return narrow;
}

void Onednn::Matmul(const MatmulShape& shape, const void* src, const void* packed, const float* bias, float* dst) {
  Prepared& matmul = impl_->MatmulFor(shape);
  Impl::Bind(matmul, DNNL_ARG_SRC, src);
  Impl::Bind(matmul, DNNL_ARG_WEIGHTS, packed);
  Impl::Bind(matmul, DNNL_ARG_DST, dst);
  if (shape.with_bias) Impl::Bind(matmul, DNNL_ARG_BIAS, bias);
  impl_->Execute(matmul);
}

void Onednn::Softmax(int64_t rows, int64_t columns, float* scores) {
  Prepared& softmax = Cached(impl_->softmaxes, {rows, columns}, [&] {
    return impl_->Mapping<dnnl::softmax_forward>(SoftmaxDescriptor(impl_->engine, RowMajor(rows, columns)));
  });
  Impl::Bind(softmax, DNNL_ARG_SRC, scores);
  Impl::Bind(softmax, DNNL_ARG_DST, scores);
  impl_->Execute(softmax);
}

void Onednn::Tanh(int64_t rows, int64_t columns, const float* src, float* dst) {
  Prepared& tanh = Cached(impl_->tanhs, {rows, columns}, [&] {
    return impl_->Mapping<dnnl::eltwise_forward>(TanhDescriptor(impl_->engine, RowMajor(rows, columns)));
  });
  Impl::Bind(tanh, DNNL_ARG_SRC, src);
  Impl::Bind(tanh, DNNL_ARG_DST, dst);
  impl_->Execute(tanh);
}

bool Onednn::RowsAreIndependent(int64_t k, int64_t n, DType operands) {
  // The batch-reduced kernels sum each element over k in one order. The older gemm chooses its way by the height.
  const std::string_view name = impl_->DescriptorOf({kTileRows, k, n, /*with_bias=*/false, operands}).impl_info_str();
  return name.substr(0, 3) == "brg";
}

}  // namespace attention::server
