#include "tests/testing/vectors/onnx_attention_case.h"

#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using server::NamedTensor;
using Sizes = std::vector<int64_t>;

std::string Bytes(const NamedTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

// [outer, count, inner] in units of bytes.
struct Blocks {
  size_t outer, count, inner;
};

// Puts `past` before `now` along the middle axis; the other two axes are equal.
std::string Concatenate(const std::string& past, const Blocks& past_blocks, const std::string& now,
                        const Blocks& now_blocks) {
  std::string result;
  for (size_t i = 0; i < now_blocks.outer; ++i) {
    result.append(past, i * past_blocks.count * past_blocks.inner, past_blocks.count * past_blocks.inner);
    result.append(now, i * now_blocks.count * now_blocks.inner, now_blocks.count * now_blocks.inner);
  }
  return result;
}

// [batch, first, second, width] to [batch, second, first, width]; width in bytes.
std::string ExchangeAxes(const std::string& bytes, const Sizes& sizes) {
  std::string result;
  for (int64_t b = 0; b < sizes[0]; ++b) {
    for (int64_t j = 0; j < sizes[2]; ++j) {
      for (int64_t i = 0; i < sizes[1]; ++i) {
        result.append(bytes, ((b * sizes[1] + i) * sizes[2] + j) * sizes[3], sizes[3]);
      }
    }
  }
  return result;
}

class Reader {
 public:
  Reader(const TensorFile& file, std::string name) : file_(file) { case_.name = std::move(name); }

  absl::StatusOr<OnnxAttentionCase> Read() {
    if (absl::Status status = CheckEverythingIsKnown(); !status.ok()) return status;
    for (const char* tensor : {"q", "k", "v", "expected_y"}) {
      if (Find(tensor) == nullptr) return Error(absl::StrCat(tensor, " is missing"));
    }
    v1::AttendRequest& request = case_.request;
    is_flat_ = Text("layout") == "B,S,H*D";
    request.mutable_heads()->set_num_heads(Integer("heads_q"));
    request.mutable_heads()->set_num_kv_heads(Integer("heads_kv"));
    request.mutable_heads()->set_axes(is_flat_ ? v1::HeadLayout::AXES_LENGTH_FEATURES
                                               : v1::HeadLayout::AXES_HEADS_LENGTH);
    *request.mutable_inputs_q() = WireTensor(Find("q")->view());
    *request.mutable_inputs_k() = WithPast("k", "past_key");
    *request.mutable_inputs_v() = WithPast("v", "past_value");
    if (Find("attn_mask") != nullptr) ReadMask();
    ReadLengths();
    ReadOptions();
    ReadExpected();
    if (absl::Status status = CheckPresent("expected_present_key", request.inputs_k()); !status.ok()) return status;
    if (absl::Status status = CheckPresent("expected_present_value", request.inputs_v()); !status.ok()) return status;
    return case_;
  }

 private:
  const NamedTensor* Find(const std::string& name) const { return file_.tensors.Find(name); }

  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(case_.name, ": ", what));
  }

  // A text of the metadata; empty if it is missing.
  std::string Text(const std::string& key) const {
    const auto found = file_.tensors.metadata.find(key);
    return found == file_.tensors.metadata.end() ? "" : found->second;
  }
  int64_t Integer(const std::string& key) const { return Text(key).empty() ? 0 : std::stoll(Text(key)); }

  absl::Status CheckEverythingIsKnown() const {
    static const std::set<std::string> known_tensors = {"q",
                                                        "k",
                                                        "v",
                                                        "attn_mask",
                                                        "past_key",
                                                        "past_value",
                                                        "nonpad_kv_seqlen",
                                                        "expected_y",
                                                        "expected_present_key",
                                                        "expected_present_value",
                                                        "expected_qk_matmul_output",
                                                        "derived_allowed"};
    // Descriptions of the case, and the attributes that ReadOptions and ReadExpected handle. softmax_precision can only
    // be float32, which the server computes in.
    static const std::set<std::string> known_metadata = {"kind",
                                                         "source",
                                                         "name",
                                                         "opset",
                                                         "tolerance",
                                                         "layout",
                                                         "heads_q",
                                                         "heads_kv",
                                                         "head_size",
                                                         "v_head_size",
                                                         "q_len",
                                                         "kv_len_total",
                                                         "features",
                                                         "mha_coverage",
                                                         "mask",
                                                         "max_abs_err_vs_float64",
                                                         "is_causal",
                                                         "scale",
                                                         "softcap",
                                                         "q_num_heads",
                                                         "kv_num_heads",
                                                         "qk_matmul_output_mode",
                                                         "softmax_precision"};
    for (const NamedTensor& tensor : file_.tensors.tensors) {
      if (known_tensors.count(tensor.name) == 0) return Error(absl::StrCat("unknown tensor ", tensor.name));
    }
    for (const auto& [key, value] : file_.tensors.metadata) {
      if (known_metadata.count(key) == 0) return Error(absl::StrCat("unknown attribute ", key));
    }
    if (!Text("softmax_precision").empty() && Text("softmax_precision") != "1") return Error("softmax_precision");
    return absl::OkStatus();
  }

  // k or v, with the past before it along the keys, in the layout of the case.
  v1::Tensor WithPast(const std::string& name, const std::string& past_name) const {
    const NamedTensor& now = *Find(name);
    const NamedTensor* past = Find(past_name);
    if (past == nullptr) return WireTensor(now.view());
    const Sizes& p = past->shape;  // [batch, kv_heads, length, width]
    const int64_t width = p[3] * server::DTypeSize(now.dtype);
    Sizes shape = now.shape;
    const size_t axis = shape.size() - 2;
    const auto past_length = static_cast<size_t>(p[2]);
    const auto now_length = static_cast<size_t>(shape[axis]);
    shape[axis] += p[2];
    std::string past_bytes = Bytes(*past);
    if (is_flat_) past_bytes = ExchangeAxes(past_bytes, {p[0], p[1], p[2], width});
    const auto outer = static_cast<size_t>(is_flat_ ? p[0] : p[0] * p[1]);
    const auto inner = static_cast<size_t>(is_flat_ ? p[1] * width : width);
    return WireTensor(static_cast<v1::DataType>(now.dtype), shape,
                      Concatenate(past_bytes, {outer, past_length, inner}, Bytes(now), {outer, now_length, inner}));
  }

  // ONNX's own joined keys and values, which are [batch, kv_heads, length, width] in every layout.
  absl::Status CheckPresent(const std::string& name, const v1::Tensor& joined) const {
    const NamedTensor* present = Find(name);
    if (present == nullptr) return absl::OkStatus();
    const Sizes& p = present->shape;
    std::string expected = Bytes(*present);
    if (is_flat_) expected = ExchangeAxes(expected, {p[0], p[1], p[2], p[3] * server::DTypeSize(present->dtype)});
    return joined.data() == expected ? absl::OkStatus() : Error(absl::StrCat(name, " differs from the joined tensor"));
  }

  // attn_mask up to the last key: a bool mask is Mask.dense, numbers are the bias.
  void ReadMask() {
    const NamedTensor& mask = *Find("attn_mask");
    const bool is_bool = mask.dtype == server::DType::kBool;
    const auto size = static_cast<size_t>(server::DTypeSize(mask.dtype));
    std::string hidden(1, '\0');
    if (!is_bool) {
      const float minus_infinity = -std::numeric_limits<float>::infinity();
      hidden.resize(size);
      server::FromFloat32(&minus_infinity, 1, mask.dtype, reinterpret_cast<std::byte*>(hidden.data()));
    }
    Sizes shape = mask.shape;
    const auto missing = static_cast<size_t>(Integer("kv_len_total") - shape.back());
    const size_t rows = mask.data.size() / (static_cast<size_t>(shape.back()) * size);
    std::string rest;
    for (size_t i = 0; i < missing; ++i) rest += hidden;
    std::string bytes;
    for (size_t row = 0; row < rows; ++row) {
      bytes.append(Bytes(mask), row * shape.back() * size, shape.back() * size);
      bytes += rest;
    }
    shape.back() += static_cast<int64_t>(missing);
    v1::AttendRequest& request = case_.request;
    *(is_bool ? request.mutable_mask()->mutable_dense() : request.mutable_bias()) =
        WireTensor(static_cast<v1::DataType>(mask.dtype), shape, bytes);
  }

  void ReadLengths() {
    v1::Mask& mask = *case_.request.mutable_mask();
    const NamedTensor* lengths = Find("nonpad_kv_seqlen");
    if (lengths != nullptr) {
      for (double length : Values(ClientTensor(WireTensor(lengths->view())))) {
        mask.add_kv_lengths(static_cast<int64_t>(length));
      }
    }
    if (Integer("is_causal") == 0) return;
    if (lengths != nullptr) {
      mask.mutable_causal()->set_corner(v1::Diagonal::CORNER_BOTTOM_RIGHT);
    } else if (Find("past_key") != nullptr) {
      mask.mutable_causal()->set_offset(Find("past_key")->shape[2]);
    } else {
      mask.mutable_causal()->set_corner(v1::Diagonal::CORNER_TOP_LEFT);
    }
  }

  void ReadOptions() {
    v1::AttendOptions& options = *case_.request.mutable_options();
    options.set_empty_rows(v1::EMPTY_ROWS_ZERO);
    if (!Text("scale").empty()) options.set_scale(std::stof(Text("scale")));
    if (!Text("softcap").empty()) options.set_softcap(std::stof(Text("softcap")));
  }

  void ReadExpected() {
    case_.output = ReadTensor("expected_y");
    if (Find("expected_qk_matmul_output") == nullptr) return;
    case_.line = static_cast<OnnxAttentionCase::Line>(Integer("qk_matmul_output_mode"));
    case_.expected_line = ReadTensor("expected_qk_matmul_output");
    v1::AttendOptions& options = *case_.request.mutable_options();
    if (case_.line == OnnxAttentionCase::Line::kAttnWeights) {
      options.set_return_attn_weights(true);
    } else {
      options.set_return_intermediates(true);
    }
  }

  Expected ReadTensor(const std::string& name) const {
    const NamedTensor& tensor = *Find(name);
    return {tensor.shape, Values(ClientTensor(WireTensor(tensor.view()))), std::stod(Text("tolerance"))};
  }

  const TensorFile& file_;
  OnnxAttentionCase case_;
  bool is_flat_ = false;
};

}  // namespace

absl::StatusOr<OnnxAttentionCase> ReadOnnxAttentionCase(const TensorFile& file, const std::string& name) {
  return Reader(file, name).Read();
}

const Tensor* LineOf(const OnnxAttentionCase& onnx_case, const AttendReply& reply) {
  using Line = OnnxAttentionCase::Line;
  if (onnx_case.line == Line::kAttnWeights) return reply.attn_weights.has_value() ? &*reply.attn_weights : nullptr;
  if (!reply.intermediates.has_value()) return nullptr;
  const Intermediates& lines = *reply.intermediates;
  if (onnx_case.line == Line::kMaskedScores) return &lines.masked_scores;
  if (onnx_case.line == Line::kCappedScores && lines.capped_scores.has_value()) return &*lines.capped_scores;
  return &lines.scores;
}

}  // namespace attention::test
