#include "server/engine/onednn.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/engine/buffer.h"
#include "server/engine/onednn_descriptors.h"
#include "server/engine/row_kernels.h"
#include "server/engine/tile_plan.h"

namespace attention::server {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

struct ShapeHash {
  size_t operator()(const MatmulShape& s) const {
    return absl::HashOf(s.m, s.k, s.n, s.with_bias, s.operands, s.weights, s.accumulate, s.exponential);
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
  enum class Reordering { kPack, kUnpack };
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

  Prepared& SoftmaxFor(int64_t rows, int64_t columns) {
    return Cached(softmaxes, {rows, columns},
                  [&] { return Mapping<dnnl::softmax_forward>(SoftmaxDescriptor(engine, RowMajor(rows, columns))); });
  }

  Prepared& ReorderFor(int64_t k, int64_t n, DType operands, Reordering reordering) {
    return Cached(reorders, {{k, n, operands}, reordering}, [&] {
      const memory::desc plain = RowMajor(k, n);
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

  void Pack(const WeightsKey& key, const float* from, void* packed) {
    const auto [k, n, operands] = key;
    if (is_emulated(operands)) {
      float* wide = rounded.Reserve(k * n);
      Round(operands, k * n, from, wide);
      from = wide;
    }
    Reorder(ReorderFor(k, n, operands, Reordering::kPack), from, packed);
  }

  // To bfloat16 and, where that is emulated, back: in blocks, for the place between.
  void Round(DType operands, int64_t count, const float* numbers, void* to) const {
    if (!is_emulated(operands)) {
      return FromFloat32(numbers, count, DType::kBFloat16, static_cast<std::byte*>(to));
    }
    constexpr int64_t kBlock = 256;
    std::byte narrow[kBlock * sizeof(uint16_t)];
    auto* wide = static_cast<float*>(to);
    for (int64_t done = 0; done < count; done += kBlock) {
      const int64_t size = std::min(kBlock, count - done);
      FromFloat32(numbers + done, size, DType::kBFloat16, narrow);
      ToFloat32(DType::kBFloat16, narrow, size, wide + done);
    }
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

Onednn::Onednn() : impl_(std::make_unique<Impl>()) {
  omp_set_num_threads(1);
  // Enough for every shape of many layers. oneDNN keeps them for all objects; 1024, its default, hold one layer.
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
  const bool is_emulated = impl_->is_emulated(operands);
  auto* narrow = reinterpret_cast<uint16_t*>(to);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = numbers + row * columns;
    const auto factor = static_cast<float>(factors[row]);
    if (is_emulated) {
      Scale(from, columns, factor, to + row * columns);
    } else {
      ScaleToBFloat16(from, columns, factor, narrow + row * columns);
    }
  }
  if (is_emulated) impl_->Round(operands, rows * columns, to, to);
  return to;
}

void Onednn::Matmul(const MatmulShape& shape, const void* src, const void* weights, const float* bias, float* dst) {
  Prepared& matmul = impl_->MatmulFor(shape);
  Impl::Bind(matmul, DNNL_ARG_SRC, src);
  Impl::Bind(matmul, DNNL_ARG_WEIGHTS, weights);
  Impl::Bind(matmul, DNNL_ARG_DST, dst);
  if (shape.with_bias) Impl::Bind(matmul, DNNL_ARG_BIAS, bias);
  impl_->Execute(matmul);
}

void Onednn::Softmax(int64_t rows, int64_t columns, float* scores) {
  Prepared& softmax = impl_->SoftmaxFor(rows, columns);
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

void Onednn::MakeMatmul(const MatmulShape& shape) { impl_->MatmulFor(shape); }

void Onednn::MakeSoftmax(int64_t rows, int64_t columns) { impl_->SoftmaxFor(rows, columns); }

int64_t Onednn::primitives() const {
  return static_cast<int64_t>(impl_->matmuls.size() + impl_->softmaxes.size() + impl_->tanhs.size() +
                              impl_->reorders.size());
}

bool Onednn::RowsAreIndependent(int64_t k, int64_t n, DType operands) {
  // The batch-reduced kernels sum each element over k in one order. The older gemm chooses its way by the height.
  const std::string_view name =
      impl_->DescriptorOf({.m = kTileRows, .k = k, .n = n, .operands = operands}).impl_info_str();
  return name.substr(0, 3) == "brg";
}

}  // namespace attention::server
