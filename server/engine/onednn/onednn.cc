#include "server/engine/onednn/onednn.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/kernels/buffer.h"
#include "server/engine/kernels/row_kernels.h"
#include "server/engine/onednn/descriptors.h"
#include "server/engine/onednn/prepared_primitive.h"
#include "server/engine/onednn/self_check.h"
#include "server/engine/onednn/tile_shapes.h"

namespace attention::server {
namespace {

using dnnl::memory;
using Arguments = Prepared::Arguments;

struct ShapeHash {
  size_t operator()(const MatmulShape& s) const {
    return absl::HashOf(s.m, s.k, s.n, s.with_bias, s.operands, s.weights, s.accumulate, s.exponential);
  }
};

// The value for `key`, created by `make` if it is missing. Adds nothing if `make` throws.
template <typename Map, typename Make>
typename Map::mapped_type& Cached(Map& map, const typename Map::key_type& key, Make make) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map.emplace(key, make()).first->second;
}

}  // namespace

struct Onednn::Impl {
  // Direction of a reorder of weights: to or from the packed layout.
  enum class Reordering { kPack, kUnpack };
  using WeightsKey = std::tuple<int64_t, int64_t, DType>;

  explicit Impl(BFloat16 bfloat16)
      : has_bfloat16(HasBFloat16() && (bfloat16 == BFloat16::kNative || CheckedKernels().bfloat16.ok())) {}

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  const bool has_bfloat16;
  Buffer scratchpad;
  absl::flat_hash_map<MatmulShape, Prepared, ShapeHash> matmuls;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Prepared> softmaxes;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Prepared> tanhs;
  absl::flat_hash_map<std::pair<WeightsKey, Reordering>, Prepared> reorders;
  absl::flat_hash_map<WeightsKey, memory::desc> packed_layouts;

  bool is_bfloat16(DType operands) const { return operands == DType::kBFloat16 && has_bfloat16; }
  // bfloat16 operands that are stored as float32.
  bool is_emulated(DType operands) const { return operands == DType::kBFloat16 && !has_bfloat16; }

  memory::data_type TypeOf(DType operands) const {
    return is_bfloat16(operands) ? memory::data_type::bf16 : memory::data_type::f32;
  }

  memory Unbound(const memory::desc& desc) { return {desc, engine, nullptr}; }

  // The layout for the largest tile height, so that tiles of all heights use the same packed weights.
  const memory::desc& PackedLayout(int64_t k, int64_t n, DType operands) {
    return Cached(packed_layouts, {k, n, operands}, [&] {
      const memory::desc any({k, n}, TypeOf(operands), memory::format_tag::any);
      return MatmulDescriptor(engine, {kTileRows, k, n}, TypeOf(operands), any).weights_desc();
    });
  }

  memory::desc WeightsOf(const MatmulShape& shape) {
    switch (shape.weights) {
      case WeightsLayout::kPlain:
        return RowMajor(shape.k, shape.n, TypeOf(shape.operands));
      case WeightsLayout::kTransposed:
        return ColumnMajor(shape.k, shape.n, TypeOf(shape.operands));
      case WeightsLayout::kPacked:
        break;
    }
    return PackedLayout(shape.k, shape.n, shape.operands);
  }

  dnnl::matmul::primitive_desc DescriptorOf(const MatmulShape& shape) {
    return MatmulDescriptor(engine, shape, TypeOf(shape.operands), WeightsOf(shape));
  }

  Prepared& MatmulFor(const MatmulShape& shape) {
    return Cached(matmuls, shape, [&] {
      const auto descriptor = DescriptorOf(shape);
      Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())},
                          {DNNL_ARG_WEIGHTS, Unbound(descriptor.weights_desc())},
                          {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
      if (shape.with_bias) arguments.emplace_back(DNNL_ARG_BIAS, Unbound(descriptor.bias_desc()));
      return Prepare(dnnl::matmul(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  // A primitive with one input and one output matrix [rows, columns].
  template <typename Primitive, typename Descriptor>
  Prepared Mapping(const Descriptor& descriptor) {
    Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())}, {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
    return Prepare(Primitive(descriptor), std::move(arguments), descriptor.scratchpad_desc());
  }

  Prepared& SoftmaxFor(int64_t rows, int64_t columns) {
    return Cached(softmaxes, {rows, columns},
                  [&] { return Mapping<dnnl::softmax_forward>(SoftmaxDescriptor(engine, RowMajor(rows, columns))); });
  }

  Prepared& TanhFor(int64_t rows, int64_t columns) {
    return Cached(tanhs, {rows, columns},
                  [&] { return Mapping<dnnl::eltwise_forward>(TanhDescriptor(engine, RowMajor(rows, columns))); });
  }

  Prepared& ReorderFor(int64_t k, int64_t n, DType operands, Reordering reordering) {
    return Cached(reorders, {{k, n, operands}, reordering}, [&] {
      // The type is the same on both sides: from float32 to bfloat16 the reorder of oneDNN 3.7 is wrong for an odd k.
      const memory::desc plain = RowMajor(k, n, TypeOf(operands));
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
    arguments.emplace_back(DNNL_ARG_SCRATCHPAD, Unbound(scratch));
    return {std::move(primitive), arguments, static_cast<int64_t>(scratch.get_size())};
  }

  void Reorder(Prepared& reorder, const void* from, void* to) {
    reorder.Bind(DNNL_ARG_FROM, from);
    reorder.Bind(DNNL_ARG_TO, to);
    Execute(reorder);
  }

  void Pack(const WeightsKey& key, const float* from, void* packed) {
    const auto [k, n, operands] = key;
    Buffer rounded;
    const void* plain = from;
    if (operands != DType::kFloat32) {
      plain = rounded.Reserve(is_bfloat16(operands) ? (k * n + 1) / 2 : k * n);
      Round(operands, k * n, from, rounded.data());
    }
    Reorder(ReorderFor(k, n, operands, Reordering::kPack), plain, packed);
  }

  // Rounds to bfloat16; converts back to float32 if bfloat16 is emulated.
  void Round(DType operands, int64_t count, const float* numbers, void* to) const {
    if (!is_emulated(operands)) {
      return FromFloat32(numbers, count, DType::kBFloat16, static_cast<std::byte*>(to));
    }
    RoundThroughBFloat16(numbers, count, static_cast<float*>(to));
  }

  void Execute(Prepared& prepared) {
    constexpr int64_t kFloatBytes = sizeof(float);
    prepared.Bind(DNNL_ARG_SCRATCHPAD,
                  scratchpad.Reserve((prepared.scratchpad_bytes() + kFloatBytes - 1) / kFloatBytes));
    prepared.Execute(stream);
    stream.wait();
  }
};

Onednn::Onednn(BFloat16 bfloat16) : impl_(std::make_unique<Impl>(bfloat16)) {
  omp_set_num_threads(1);
  // oneDNN shares this cache between all objects. Its default of 1024 primitives is enough for one layer only.
  constexpr int kCachedPrimitives = 1 << 16;
  if (dnnl::get_primitive_cache_capacity() < kCachedPrimitives) dnnl::set_primitive_cache_capacity(kCachedPrimitives);
}

Onednn::~Onednn() = default;

int64_t Onednn::PackedBytes(int64_t k, int64_t n, DType operands) {
  return static_cast<int64_t>(impl_->PackedLayout(k, n, operands).get_size());
}

void Onednn::Pack(int64_t k, int64_t n, DType operands, const float* weights, void* packed) {
  impl_->Pack({k, n, operands}, weights, packed);
}

void Onednn::Unpack(int64_t k, int64_t n, const void* packed, float* weights) {
  impl_->Reorder(impl_->ReorderFor(k, n, DType::kFloat32, Impl::Reordering::kUnpack), packed, weights);
}

int64_t Onednn::OperandBytes(DType operands) const { return impl_->is_bfloat16(operands) ? 2 : 4; }

void Onednn::ToOperands(DType operands, int64_t count, const float* numbers, void* to) const {
  impl_->Round(operands, count, numbers, to);
}

const void* Onednn::Operand(DType operands, int64_t count, const float* numbers, Buffer& buffer) const {
  if (operands == DType::kFloat32) return numbers;
  void* to = buffer.Reserve(count);
  impl_->Round(operands, count, numbers, to);
  return to;
}

const void* Onednn::ScaledOperand(DType operands, int64_t rows, int64_t columns, const double* factors,
                                  const float* numbers, Buffer& buffer) {
  float* to = buffer.Reserve(rows * columns);
  if (!impl_->is_emulated(operands)) {
    ScaleRowsToBFloat16({numbers, rows, columns, columns}, factors, reinterpret_cast<uint16_t*>(to));
    return to;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const Rows one{numbers + row * columns, 1, columns, columns};
    ScaleRows(one, static_cast<float>(factors[row]), to + row * columns, columns);
  }
  impl_->Round(operands, rows * columns, to, to);
  return to;
}

void Onednn::Matmul(const MatmulShape& shape, const void* src, const void* weights, const float* bias, float* dst) {
  Prepared& matmul = impl_->MatmulFor(shape);
  matmul.Bind(DNNL_ARG_SRC, src);
  matmul.Bind(DNNL_ARG_WEIGHTS, weights);
  matmul.Bind(DNNL_ARG_DST, dst);
  if (shape.with_bias) matmul.Bind(DNNL_ARG_BIAS, bias);
  impl_->Execute(matmul);
}

void Onednn::Softmax(int64_t rows, int64_t columns, float* scores) {
  Prepared& softmax = impl_->SoftmaxFor(rows, columns);
  softmax.Bind(DNNL_ARG_SRC, scores);
  softmax.Bind(DNNL_ARG_DST, scores);
  impl_->Execute(softmax);
}

void Onednn::Tanh(int64_t rows, int64_t columns, const float* src, float* dst) {
  Prepared& tanh = impl_->TanhFor(rows, columns);
  tanh.Bind(DNNL_ARG_SRC, src);
  tanh.Bind(DNNL_ARG_DST, dst);
  impl_->Execute(tanh);
}

void Onednn::MakeMatmul(const MatmulShape& shape) { impl_->MatmulFor(shape); }

void Onednn::MakeSoftmax(int64_t rows, int64_t columns) { impl_->SoftmaxFor(rows, columns); }

void Onednn::MakeTanh(int64_t rows, int64_t columns) { impl_->TanhFor(rows, columns); }

void Onednn::MakePacking(int64_t k, int64_t n, DType operands) {
  impl_->ReorderFor(k, n, operands, Impl::Reordering::kPack);
  if (operands == DType::kFloat32) impl_->ReorderFor(k, n, operands, Impl::Reordering::kUnpack);
}

int64_t Onednn::primitives() const {
  return static_cast<int64_t>(impl_->matmuls.size() + impl_->softmaxes.size() + impl_->tanhs.size() +
                              impl_->reorders.size());
}

bool Onednn::RowsAreIndependent(int64_t k, int64_t n, DType operands) {
  // Batch-reduced kernels sum over k in a fixed order. The older gemm chooses an order that depends on the height.
  const std::string_view name =
      impl_->DescriptorOf({.m = kTileRows, .k = k, .n = n, .operands = operands}).impl_info_str();
  return name.substr(0, 3) == "brg";
}

}  // namespace attention::server
