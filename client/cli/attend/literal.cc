#include "client/cli/attend/literal.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

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

std::optional<float> Number(const json& element) {
  if (element.is_number()) return element.get<float>();
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
absl::Status AppendBytes(const std::optional<Element>& element, const json& found, const char* wanted, Tensor& tensor) {
  if (!element) return absl::InvalidArgumentError(absl::StrCat("wanted ", wanted, ", found ", Describe(found)));
  tensor.bytes.append(reinterpret_cast<const char*>(&*element), sizeof(Element));
  return absl::OkStatus();
}

absl::Status AppendElement(const json& element, Tensor& tensor) {
  switch (tensor.dtype) {
    case DataType::kBool:
      return AppendBytes(TruthValue(element), element, "true, false, 1 or 0", tensor);
    case DataType::kInt64:
      return AppendBytes(Integer(element), element, "an integer", tensor);
    default:
      return AppendBytes(Number(element), element, "a number", tensor);
  }
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
  // JSON has no infinite numbers, but the tool prints them, and a bias hides with -inf.
  const std::string words = absl::StrReplaceAll(text, {{"-inf", "\"-inf\""}, {"inf", "\"inf\""}, {"nan", "\"nan\""}});
  const json lists = json::parse(words, nullptr, /*allow_exceptions=*/false);
  if (lists.is_discarded()) return absl::InvalidArgumentError("not a nested list such as [[1, 2], [3, 4]]");
  const absl::StatusOr<std::vector<int64_t>> shape = ShapeOf(lists);
  if (!shape.ok()) return shape.status();
  Tensor tensor{dtype, *shape, {}};
  if (absl::Status status = Append(lists, 0, tensor); !status.ok()) return status;
  return tensor;
}

bool LooksLikeLiteral(const std::string& text) { return !text.empty() && text.front() == '['; }

}  // namespace attention::cli
