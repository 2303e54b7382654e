#include "server/weights/formats/npy_header.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/weights/formats/echo.h"
#include "server/weights/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr std::pair<absl::string_view, DType> kDescrs[] = {
    {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"<f2", DType::kFloat16}, {"|b1", DType::kBool},
    {"|i1", DType::kInt8},    {"|u1", DType::kUInt8},   {"<i2", DType::kInt16},   {"<u2", DType::kUInt16},
    {"<i4", DType::kInt32},   {"<u4", DType::kUInt32},  {"<i8", DType::kInt64},   {"<u8", DType::kUInt64},
};

absl::Status Malformed(absl::string_view wanted, absl::string_view rest) {
  return absl::InvalidArgumentError(
      absl::StrCat("npy: header: wanted ", wanted, ", found \"", Echo(rest.substr(0, 20)), "\""));
}

absl::StatusOr<DType> ReadDescr(absl::string_view descr) {
  for (const auto& [known, dtype] : kDescrs) {
    if (descr == known) return dtype;
  }
  const auto fail = [descr](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("npy: descr '", Echo(descr), "': ", what));
  };
  if (absl::StrContains(descr, 'O')) return fail("object arrays (pickle) are not read; save an array of numbers");
  if (absl::StartsWith(descr, ">")) return fail("big-endian; save array.astype(array.dtype.newbyteorder('<'))");
  if (descr == "|V2" || descr == "<V2") return fail("raw bytes; for bfloat16 use a safetensors file");
  return fail("wanted bool, float16, float32, float64 or an integer type, little-endian");
}

// Consumes the literal from left to right. Each method takes what it names, with the blanks before it, or fails.
class DictReader {
 public:
  explicit DictReader(absl::string_view text) : rest_(text) {}

  absl::StatusOr<NpyHeader> Read() {
    if (!Take("{")) return Malformed("'{'", rest_);
    while (!Take("}")) {
      if (absl::Status status = Entry(); !status.ok()) return status;
      if (!Take(",") && !absl::StartsWith(rest_, "}")) return Malformed("',' or '}'", rest_);
    }
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Malformed("nothing after '}'", rest_);
    if (!dtype_ || !shape_ || !saw_order_) {
      return absl::InvalidArgumentError("npy: header: wanted the keys descr, fortran_order and shape");
    }
    return NpyHeader{*dtype_, *std::move(shape_), column_major_};
  }

 private:
  bool Take(absl::string_view token) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, token);
  }

  absl::Status Entry() {
    const absl::string_view key_at = rest_;
    const absl::StatusOr<absl::string_view> key = String();
    if (!key.ok()) return key.status();
    if (!Take(":")) return Malformed("':'", rest_);
    if (*key == "descr" && !dtype_) return Descr();
    if (*key == "fortran_order" && !saw_order_) return Order();
    if (*key == "shape" && !shape_) return Tuple();
    return Malformed("descr, fortran_order and shape, each once", key_at);
  }

  absl::StatusOr<absl::string_view> String() {
    const absl::string_view quote = Take("'") ? "'" : "\"";
    const size_t end = quote == "'" || Take(quote) ? rest_.find(quote) : absl::string_view::npos;
    if (end == absl::string_view::npos) return Malformed("a string in quotes", rest_);
    const absl::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  absl::Status Descr() {
    if (Take("[")) return absl::InvalidArgumentError("npy: descr: structured arrays are not read; save one field");
    const absl::StatusOr<absl::string_view> descr = String();
    if (!descr.ok()) return descr.status();
    const absl::StatusOr<DType> dtype = ReadDescr(*descr);
    if (!dtype.ok()) return dtype.status();
    dtype_ = *dtype;
    return absl::OkStatus();
  }

  absl::Status Order() {
    saw_order_ = true;
    if (Take("False")) return absl::OkStatus();
    if (!Take("True")) return Malformed("True or False", rest_);
    column_major_ = true;
    return absl::OkStatus();
  }

  absl::Status Tuple() {
    if (!Take("(")) return Malformed("a tuple", rest_);
    shape_.emplace();
    while (!Take(")")) {
      if (absl::Status status = Size(); !status.ok()) return status;
      // One element without a comma behind it is a number in brackets, not a tuple.
      const bool comma = Take(",");
      if (!comma && (shape_->size() == 1 || !absl::StartsWith(rest_, ")"))) return Malformed("','", rest_);
    }
    return absl::OkStatus();
  }

  absl::Status Size() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    size_t digits = 0;
    while (digits < rest_.size() && absl::ascii_isdigit(rest_[digits])) ++digits;
    int64_t size;
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &size)) return Malformed("a size in int64, not negative", rest_);
    if (shape_->size() == kMaxAxes)
      return absl::InvalidArgumentError(absl::StrCat("npy: shape: wanted at most ", kMaxAxes, " axes"));
    shape_->push_back(size);
    rest_.remove_prefix(digits);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  bool saw_order_ = false, column_major_ = false;
};

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) { return DictReader(text).Read(); }

absl::StatusOr<std::string> MakeNpyHeader(DType dtype, absl::Span<const int64_t> shape) {
  for (const auto& [descr, known] : kDescrs) {
    if (dtype != known) continue;
    return absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", absl::StrJoin(shape, ", "),
                        shape.size() == 1 ? "," : "", "), }");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("npy: the format has no ", DTypeName(dtype), "; write float32, or a safetensors file"));
}

}  // namespace attention::server
