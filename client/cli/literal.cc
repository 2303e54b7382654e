#include "client/cli/literal.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxRank = 8;

// The sizes along the first entries; Append then holds every other list to them.
absl::StatusOr<std::vector<int64_t>> ShapeOf(const json& lists) {
  std::vector<int64_t> shape;
  for (const json* level = &lists; level->is_array(); level = &level->front()) {
    if (shape.size() == kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("lists are more than ", kMaxRank, " deep"));
    }
    shape.push_back(level->size());
    if (level->empty()) break;
  }
  return shape;
}

// Not the contents of lists: they may be long, and deep.
std::string Describe(const json& found) { return found.is_structured() ? found.type_name() : found.dump(); }

std::optional<bool> TruthValue(const json& element) {
  if (element.is_boolean()) return element.get<bool>();
  const double number = element.is_number() ? element.get<double>() : -1;
  if (number == 0 || number == 1) return number == 1;
  return std::nullopt;
}

absl::Status AppendElement(const json& element, Tensor& tensor) {
  if (tensor.dtype == DataType::kBool) {
    const std::optional<bool> truth = TruthValue(element);
    if (!truth) {
      return absl::InvalidArgumentError(absl::StrCat("wanted true, false, 1 or 0, found ", Describe(element)));
    }
    tensor.bytes.push_back(*truth ? 1 : 0);
    return absl::OkStatus();
  }
  if (!element.is_number()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted a number, found ", Describe(element)));
  }
  const float value = element.get<float>();
  tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return absl::OkStatus();
}

absl::Status Append(const json& level, size_t axis, Tensor& tensor) {
  if (axis == tensor.shape.size()) return AppendElement(level, tensor);
  if (!level.is_array() || static_cast<int64_t>(level.size()) != tensor.shape[axis]) {
    const std::string found = level.is_array() ? absl::StrCat("one of ", level.size()) : Describe(level);
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a list of ", tensor.shape[axis], " at depth ", axis, ", found ", found));
  }
  for (const json& entry : level) {
    if (absl::Status status = Append(entry, axis + 1, tensor); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ParseLiteral(const std::string& text, DataType dtype) {
  const json lists = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (lists.is_discarded()) return absl::InvalidArgumentError("not a nested list such as [[1, 2], [3, 4]]");
  const absl::StatusOr<std::vector<int64_t>> shape = ShapeOf(lists);
  if (!shape.ok()) return shape.status();
  Tensor tensor{dtype, *shape, {}};
  if (absl::Status status = Append(lists, 0, tensor); !status.ok()) return status;
  return tensor;
}

bool LooksLikeLiteral(const std::string& text) { return !text.empty() && text.front() == '['; }

}  // namespace attention::cli
