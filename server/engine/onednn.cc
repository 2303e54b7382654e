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

memory::desc RowMajor(int64_t rows, int64_t columns) { return {{rows, columns}, kFloat, memory::format_tag::ab}; }
memory::desc ColumnMajor(int64_t rows, int64_t columns) { return {{rows, columns}, kFloat, memory::format_tag::ba}; }
memory::desc AnyLayout(int64_t rows, int64_t columns) { return {{rows, columns}, kFloat, memory::format_tag::any}; }

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

// The two functions in which oneDNN 2 and 3 differ.
dnnl::matmul::primitive_desc MatmulDescriptor(const dnnl::engine& engine, const MatmulShape& shape,
                                              const memory::desc& weights) {
  const memory::desc src = RowMajor(shape.m, shape.k);
  const memory::desc bias = shape.with_bias ? RowMajor(1, shape.n) : memory::desc();
  const memory::desc dst = RowMajor(shape.m, shape.n);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, src, weights, bias, dst, Attributes()};
#else
  return {{src, weights, bias, dst}, Attributes(), engine};
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

struct ShapeHash {
  size_t operator()(const MatmulShape& shape) const { return absl::HashOf(shape.m, shape.k, shape.n, shape.with_bias); }
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
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  Buffer scratchpad;
  absl::flat_hash_map<MatmulShape, Prepared, ShapeHash> matmuls;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Prepared> softmaxes;
  absl::flat_hash_map<std::tuple<int64_t, int64_t, bool>, Prepared> packers;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, memory::desc> packed_layouts;

  memory Unbound(const memory::desc& desc) { return {desc, engine, nullptr}; }

  // The layout is that of the tallest tile, so that tiles of every height read the same packed weights.
  const memory::desc& PackedLayout(int64_t k, int64_t n) {
    return Cached(packed_layouts, {k, n}, [&] {
      return MatmulDescriptor(engine, {kTileRows, k, n}, AnyLayout(k, n)).weights_desc();
    });
  }

  Prepared& MatmulFor(const MatmulShape& shape) {
    return Cached(matmuls, shape, [&] {
      const auto descriptor = MatmulDescriptor(engine, shape, PackedLayout(shape.k, shape.n));
      Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())},
                          {DNNL_ARG_WEIGHTS, Unbound(descriptor.weights_desc())},
                          {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
      if (shape.with_bias) arguments.emplace(DNNL_ARG_BIAS, Unbound(descriptor.bias_desc()));
      return Prepare(dnnl::matmul(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  Prepared& SoftmaxFor(int64_t rows, int64_t columns) {
    return Cached(softmaxes, {rows, columns}, [&] {
      const auto descriptor = SoftmaxDescriptor(engine, RowMajor(rows, columns));
      Arguments arguments{{DNNL_ARG_SRC, Unbound(descriptor.src_desc())},
                          {DNNL_ARG_DST, Unbound(descriptor.dst_desc())}};
      return Prepare(dnnl::softmax_forward(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  Prepared& PackerFor(int64_t k, int64_t n, bool transposed) {
    return Cached(packers, {k, n, transposed}, [&] {
      const memory::desc from = transposed ? ColumnMajor(k, n) : RowMajor(k, n);
      const memory::desc& to = PackedLayout(k, n);
      const dnnl::reorder::primitive_desc descriptor(engine, from, engine, to, Attributes());
      Arguments arguments{{DNNL_ARG_FROM, Unbound(from)}, {DNNL_ARG_TO, Unbound(to)}};
      return Prepare(dnnl::reorder(descriptor), std::move(arguments), descriptor.scratchpad_desc());
    });
  }

  Prepared Prepare(dnnl::primitive primitive, Arguments arguments, const memory::desc& scratch) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, Unbound(scratch));
    return {std::move(primitive), std::move(arguments), static_cast<int64_t>(scratch.get_size())};
  }

  void Pack(int64_t k, int64_t n, bool transposed, const float* from, float* packed) {
    Prepared& packer = PackerFor(k, n, transposed);
    Bind(packer, DNNL_ARG_FROM, from);
    Bind(packer, DNNL_ARG_TO, packed);
    Execute(packer);
  }

  // oneDNN takes pointers to mutable data also for what it only reads.
  static void Bind(Prepared& prepared, int argument, const float* data) {
    prepared.arguments.at(argument).set_data_handle(const_cast<float*>(data));
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

int64_t Onednn::PackedSize(int64_t k, int64_t n) {
  return static_cast<int64_t>((impl_->PackedLayout(k, n).get_size() + sizeof(float) - 1) / sizeof(float));
}

void Onednn::Pack(int64_t k, int64_t n, const float* weights, float* packed) {
  impl_->Pack(k, n, /*transposed=*/false, weights, packed);
}

void Onednn::PackTransposed(int64_t k, int64_t n, const float* matrix, float* packed) {
  impl_->Pack(k, n, /*transposed=*/true, matrix, packed);
}

void Onednn::Matmul(const MatmulShape& shape, const float* src, const float* packed, const float* bias, float* dst) {
  Prepared& matmul = impl_->MatmulFor(shape);
  Impl::Bind(matmul, DNNL_ARG_SRC, src);
  Impl::Bind(matmul, DNNL_ARG_WEIGHTS, packed);
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

bool Onednn::RowsAreIndependent(int64_t k, int64_t n) {
  // The batch-reduced kernels sum each element over k in one order. The older gemm chooses its way by the height.
  const MatmulShape shape{kTileRows, k, n};
  const std::string_view name = MatmulDescriptor(impl_->engine, shape, impl_->PackedLayout(k, n)).impl_info_str();
  return name.substr(0, 3) == "brg";
}

}  // namespace attention::server
