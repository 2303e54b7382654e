#include "client/cli/tensor_printer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention::cli {
namespace {

// Prints in two passes over the shown elements: the first finds the widths, so that columns stand under each other with
// their decimal points aligned.
class Printer {
 public:
  Printer(const Numbers& tensor, const PrintLimits& limits, int indent)
      : tensor_(tensor), limits_(limits), indent_(indent) {}

  std::string Print() {
    Visit(0, 0);
    measuring_ = false;
    text_.clear();
    Visit(0, 0);
    return text_;
  }

 private:
  void Visit(int64_t axis, int64_t index) {
    if (axis == tensor_.rank()) return Element(index);
    const bool last = axis + 1 == tensor_.rank();
    const std::string separator =
        last ? ", "
             : absl::StrCat(",", std::string(tensor_.rank() - axis - 1, '\n'), std::string(indent_ + axis + 1, ' '));
    const int64_t size = tensor_.shape[axis];
    bool first = true;
    text_ += "[";
    for (int64_t i : ShownIndices(size, last ? limits_.max_columns : limits_.max_rows)) {
      if (!first) text_ += separator;
      first = false;
      if (i == kEllipsis) {
        text_ += "…";
      } else {
        Visit(axis + 1, index * size + i);
      }
    }
    text_ += "]";
  }

  void Element(int64_t index) {
    const std::string text = Format(tensor_.values[index]);
    const size_t point = std::min(text.find('.'), text.size());
    if (measuring_) {
      before_point_ = std::max(before_point_, point);
      after_point_ = std::max(after_point_, text.size() - point);
    } else {
      absl::StrAppend(&text_, std::string(before_point_ - point, ' '), text,
                      std::string(after_point_ - (text.size() - point), ' '));
    }
  }

  std::string Format(double value) const {
    if (tensor_.dtype == DataType::kBool) return value != 0 ? "true" : "false";
    if (tensor_.dtype == DataType::kInt32 || tensor_.dtype == DataType::kInt64) {
      return absl::StrFormat("%.0f", value);
    }
    return FormatNumber(value);
  }

  const Numbers& tensor_;
  const PrintLimits limits_;
  const int indent_;
  bool measuring_ = true;
  size_t before_point_ = 0;
  size_t after_point_ = 0;
  std::string text_;
};

}  // namespace

std::string PrintTensor(const Numbers& tensor, const PrintLimits& limits, int indent) {
  return Printer(tensor, limits, indent).Print();
}

PrintLimits NumpyLimits(const Numbers& tensor) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max() - 1;
  if (tensor.values.size() <= 1000) return {.max_rows = kAll, .max_columns = kAll};
  return {.max_rows = 6, .max_columns = 6};
}

}  // namespace attention::cli
