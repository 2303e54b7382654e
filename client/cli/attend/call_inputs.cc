#include "client/cli/attend/call_inputs.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/tensor_files.h"

namespace attention::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxRank = 8;

// The lengths of the first list at each depth. Append checks that all others have the same.
absl::StatusOr<std::vector<int64_t>> ShapeOf(const json& lists) {
  std::vector<int64_t> shape;
  for (const json* level = &lists; level->is_array(); level = &level->front()) {
    if (shape.size() == kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMaxRank, " axes, got more"));
    }
    shape.push_back(level->size());
    if (level->empty()) break;
  }
  return shape;
}

// Lists are not printed: they may be long and deep.
std::string Describe(const json& value) {
  if (value.is_array()) return absl::StrCat("a list of ", value.size());
  return value.is_object() ? "an object" : value.dump();
}

std::optional<bool> Bool(const json& element) {
  if (element.is_boolean()) return element.get<bool>();
  const double number = element.is_number() ? element.get<double>() : -1;
  if (number == 0 || number == 1) return number == 1;
  return std::nullopt;
}

std::optional<float> Number(const json& element) {
  if (element.is_number()) {
    // Numbers that round to the largest float32 are in its range.
    const auto number = static_cast<float>(element.get<double>());
    if (std::isinf(number)) return std::nullopt;
    return number;
  }
  if (element == "inf") return std::numeric_limits<float>::infinity();
  if (element == "-inf") return -std::numeric_limits<float>::infinity();
  if (element == "nan") return std::numeric_limits<float>::quiet_NaN();
  return std::nullopt;
}

std::optional<int64_t> Integer(const json& element) {
  if (!element.is_number_integer()) return std::nullopt;
  const bool too_large = element.is_number_unsigned() &&
                         element.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (too_large) return std::nullopt;
  return element.get<int64_t>();
}

template <typename Element>
absl::Status AppendBytes(const std::optional<Element>& element, const json& actual, const char* expected,
                         Tensor& tensor) {
  if (!element) return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", Describe(actual)));
  tensor.bytes.append(reinterpret_cast<const char*>(&*element), sizeof(Element));
  return absl::OkStatus();
}

absl::Status AppendElement(const json& element, Tensor& tensor) {
  switch (tensor.dtype) {
    case DataType::kBool:
      return AppendBytes(Bool(element), element, "true, false, 1 or 0", tensor);
    case DataType::kInt64:
      return AppendBytes(Integer(element), element, "an integer", tensor);
    default:
      return AppendBytes(Number(element), element,
                         element.is_number() ? "a number in the range of float32" : "a number", tensor);
  }
}

absl::Status Append(const json& level, size_t axis, Tensor& tensor) {
  if (axis == tensor.shape.size()) return AppendElement(level, tensor);
  if (!level.is_array() || static_cast<int64_t>(level.size()) != tensor.shape[axis]) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a list of ", tensor.shape[axis], " at depth ", axis, ", got ", Describe(level)));
  }
  for (const json& entry : level) {
    if (absl::Status status = Append(entry, axis + 1, tensor); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadInput(const std::string& argument, const std::string& name, DataType literal_type) {
  absl::StatusOr<Tensor> tensor =
      absl::StartsWith(argument, "[") ? ParseLiteral(argument, literal_type) : ReadTensor(argument, name);
  if (tensor.ok()) return tensor;
  return absl::Status(tensor.status().code(), absl::StrCat(name, ": ", tensor.status().message()));
}

std::optional<TensorRef> Ref(const std::optional<Tensor>& tensor) {
  if (!tensor) return std::nullopt;
  return TensorRef(*tensor);
}

}  // namespace

absl::StatusOr<Tensor> ParseLiteral(const std::string& text, DataType dtype) {
  // JSON has no infinity, but attentionctl prints it, and -inf in a bias hides a key.
  const std::string quoted = absl::StrReplaceAll(text, {{"-inf", "\"-inf\""}, {"inf", "\"inf\""}, {"nan", "\"nan\""}});
  const json lists = json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  if (lists.is_discarded()) return absl::InvalidArgumentError("expected a nested list such as [[1, 2], [3, 4]]");
  const absl::StatusOr<std::vector<int64_t>> shape = ShapeOf(lists);
  if (!shape.ok()) return shape.status();
  Tensor tensor{dtype, *shape, {}};
  if (absl::Status status = Append(lists, 0, tensor); !status.ok()) return status;
  return tensor;
}

absl::StatusOr<CallInputs> CallInputs::Read(const InputOptions& options) {
  CallInputs inputs;
  inputs.options_ = options;
  absl::StatusOr<Tensor> inputs_q = ReadInput(options.inputs_q, "inputs_q", DataType::kFloat32);
  if (!inputs_q.ok()) return inputs_q.status();
  inputs.inputs_q_ = *std::move(inputs_q);
  const struct {
    const std::string& argument;
    const char* name;
    DataType literal_type;
    std::optional<Tensor>& tensor;
  } others[] = {
      {options.inputs_k, "inputs_k", DataType::kFloat32, inputs.inputs_k_},
      {options.inputs_v, "inputs_v", DataType::kFloat32, inputs.inputs_v_},
      {options.bias, "bias", DataType::kFloat32, inputs.bias_},
      {options.mask, "mask", DataType::kBool, inputs.mask_},
      {options.q_segment_ids, "q_segment_ids", DataType::kInt64, inputs.q_segment_ids_},
      {options.kv_segment_ids, "kv_segment_ids", DataType::kInt64, inputs.kv_segment_ids_},
  };
  for (const auto& other : others) {
    if (other.argument.empty()) continue;
    absl::StatusOr<Tensor> read = ReadInput(other.argument, other.name, other.literal_type);
    if (!read.ok()) return read.status();
    other.tensor = *std::move(read);
  }
  return inputs;
}

AttendRequest CallInputs::request() const {
  AttendRequest request = RequestWithoutTensors(options_);
  request.inputs_q = inputs_q_;
  request.inputs_k = Ref(inputs_k_);
  request.inputs_v = Ref(inputs_v_);
  request.bias = Ref(bias_);
  request.mask.dense = Ref(mask_);
  request.mask.q_segment_ids = Ref(q_segment_ids_);
  request.mask.kv_segment_ids = Ref(kv_segment_ids_);
  return request;
}

AttendRequest RequestWithoutTensors(const InputOptions& options) {
  AttendRequest request;
  request.weight_set = options.weight_set;
  request.version = options.which.version;
  request.alias = options.which.alias;
  request.mask.causal = options.causal;
  request.mask.window = options.window;
  request.mask.kv_lengths = options.kv_lengths;
  request.mask.q_lengths = options.q_lengths;
  request.heads = options.heads;
  request.scale = options.scale;
  request.softcap = options.softcap;
  request.empty_rows = options.empty_rows;
  request.output_dtype = options.output_dtype;
  request.compute_dtype = options.compute_dtype;
  request.request_id = options.request_id;
  request.priority = options.priority;
  return request;
}

}  // namespace attention::cli
