#include "server/checkpoint/formats/npy.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr std::pair<absl::string_view, DType> kDescrs[] = {
    {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"<f2", DType::kFloat16}, {"|b1", DType::kBool},
    {"|i1", DType::kInt8},    {"|u1", DType::kUInt8},   {"<i2", DType::kInt16},   {"<u2", DType::kUInt16},
    {"<i4", DType::kInt32},   {"<u4", DType::kUInt32},  {"<i8", DType::kInt64},   {"<u8", DType::kUInt64},
};

// The dict at the start of a file.
struct NpyHeader {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool column_major = false;
};

absl::Status Malformed(absl::string_view expected, absl::string_view rest) {
  return FieldError("npy: header", expected, absl::StrCat("\"", EscapeForMessage(rest.substr(0, 20)), "\""));
}

absl::StatusOr<DType> ReadDescr(absl::string_view descr) {
  for (const auto& [known, dtype] : kDescrs) {
    if (descr == known) return dtype;
  }
  const std::string quoted = absl::StrCat("'", EscapeForMessage(descr), "'");
  const auto unsupported = [&quoted](absl::string_view text) {
    return absl::InvalidArgumentError(absl::StrCat("npy: descr: ", quoted, " is ", text));
  };
  if (absl::StrContains(descr, 'O')) return unsupported("an object array (pickle); save an array of numbers");
  if (absl::StartsWith(descr, ">")) return unsupported("big-endian; save array.astype(array.dtype.newbyteorder('<'))");
  if (descr == "|V2" || descr == "<V2") return unsupported("raw bytes; use a safetensors file for bfloat16");
  return FieldError("npy: descr", "bool, float16, float32, float64 or an integer type, little-endian", quoted);
}

// Parses the Python literal from left to right: exactly the keys descr, fortran_order and shape. Each method skips
// blanks and consumes what its name says.
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
    if (!dtype_ || !shape_ || !has_order_) return Malformed("the keys descr, fortran_order and shape", "}");
    return NpyHeader{*dtype_, *std::move(shape_), column_major_};
  }

 private:
  bool Take(absl::string_view token) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, token);
  }

  absl::Status Entry() {
    const absl::string_view at_key = rest_;
    const absl::StatusOr<absl::string_view> key = String();
    if (!key.ok()) return key.status();
    if (!Take(":")) return Malformed("':'", rest_);
    if (*key == "descr" && !dtype_) return Descr();
    if (*key == "fortran_order" && !has_order_) return Order();
    if (*key == "shape" && !shape_) return Tuple();
    return Malformed("descr, fortran_order and shape, each once", at_key);
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
    if (Take("[")) return absl::InvalidArgumentError("npy: descr: structured arrays are not supported; save one field");
    const absl::StatusOr<absl::string_view> descr = String();
    if (!descr.ok()) return descr.status();
    const absl::StatusOr<DType> dtype = ReadDescr(*descr);
    if (!dtype.ok()) return dtype.status();
    dtype_ = *dtype;
    return absl::OkStatus();
  }

  absl::Status Order() {
    has_order_ = true;
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
      // "(2)" is a number, not a tuple.
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
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &size)) return Malformed("a size from 0 to 2^63 - 1", rest_);
    if (shape_->size() == kMaxAxes)
      return FieldError("npy: shape", absl::StrCat("at most ", kMaxAxes, " axes"), "more");
    shape_->push_back(size);
    rest_.remove_prefix(digits);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  bool has_order_ = false, column_major_ = false;
};

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

struct Parts {
  absl::string_view header;
  absl::Span<const std::byte> data;
};

absl::StatusOr<Parts> Split(absl::Span<const std::byte> file) {
  const absl::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t length_at = kMagic.size() + 2;
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < length_at) {
    return FieldError("npy", "\\x93NUMPY and a version as the first bytes",
                      absl::StrCat("\"", EscapeForMessage(text.substr(0, length_at)), "\""));
  }
  const int version = static_cast<unsigned char>(text[kMagic.size()]);
  if (version < 1 || version > 3) return FieldError("npy: version", "1, 2 or 3", version);
  const size_t length_bytes = version == 1 ? 2 : 4;
  const absl::string_view rest = text.substr(length_at);
  if (rest.size() < length_bytes) return absl::InvalidArgumentError("npy: the file ends within the header length");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  const size_t longest = rest.size() - length_bytes;
  if (length > longest) return FieldError("npy: header length", absl::StrCat("at most ", longest), length);
  return Parts{rest.substr(length_bytes, length), file.subspan(length_at + length_bytes + length)};
}

// The column-major elements in row-major order. `size`: bytes of one element.
// REQUIRES: `data` contains the elements of `shape`, which has at least one axis.
std::vector<std::byte> ToRowMajor(absl::Span<const std::byte> data, absl::Span<const int64_t> shape, int64_t size) {
  std::vector<std::byte> result;
  result.reserve(data.size());
  // Bytes between neighbours along each axis of the column-major data.
  Shape strides(1, size);
  for (size_t axis = 1; axis < shape.size(); ++axis) strides.push_back(strides.back() * shape[axis - 1]);
  Shape index(shape.size(), 0);
  const std::byte* row = data.data();
  while (result.size() < data.size()) {
    for (int64_t i = 0; i < shape.back(); ++i) {
      const std::byte* const element = row + i * strides.back();
      result.insert(result.end(), element, element + size);
    }
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      row += strides[axis];
      if (++index[axis] < shape[axis]) break;
      row -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

absl::StatusOr<std::string> MakeHeader(DType dtype, absl::Span<const int64_t> shape) {
  for (const auto& [descr, known] : kDescrs) {
    if (dtype != known) continue;
    return absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", absl::StrJoin(shape, ", "),
                        shape.size() == 1 ? "," : "", "), }");
  }
  return absl::InvalidArgumentError(absl::StrCat("npy: dtype: the format does not support ", DTypeName(dtype),
                                                 "; write float32, or a safetensors file"));
}

}  // namespace

absl::StatusOr<TensorMap> ParseNpy(absl::Span<const std::byte> file) {
  const absl::StatusOr<Parts> parts = Split(file);
  if (!parts.ok()) return parts.status();
  absl::StatusOr<NpyHeader> header = DictReader(parts->header).Read();
  if (!header.ok()) return header.status();
  auto status = CheckByteCount("npy: data", header->dtype, header->shape, parts->data.size());
  if (!status.ok()) return status;
  TensorMap map;
  absl::Span<const std::byte> data = parts->data;
  if (header->column_major && !data.empty() && header->shape.size() > 1) {
    map.storage.push_back(ToRowMajor(data, header->shape, DTypeSize(header->dtype)));
    data = map.storage.back();
  }
  map.tensors.push_back({"", header->dtype, std::move(header->shape), data});
  return map;
}

absl::StatusOr<std::vector<std::byte>> SerializeNpy(const NamedTensor& tensor) {
  auto status = CheckByteCount("npy: data", tensor.dtype, tensor.shape, tensor.data.size());
  if (!status.ok()) return status;
  if (tensor.shape.size() > kMaxAxes) {
    return FieldError("npy: shape", absl::StrCat("at most ", kMaxAxes, " axes"), tensor.shape.size());
  }
  absl::StatusOr<std::string> header = MakeHeader(tensor.dtype, tensor.shape);
  if (!header.ok()) return header.status();
  const size_t before = kMagic.size() + 4;
  const size_t data_at = (before + header->size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header->resize(data_at - before - 1, ' ');
  *header += '\n';

  std::string start = absl::StrCat(kMagic, absl::string_view("\x01\x00", 2));
  start += static_cast<char>(header->size() & 0xFF);
  start += static_cast<char>(header->size() >> 8);
  start += *header;
  const absl::Span<const std::byte> start_bytes(reinterpret_cast<const std::byte*>(start.data()), start.size());
  std::vector<std::byte> file(start_bytes.begin(), start_bytes.end());
  file.insert(file.end(), tensor.data.begin(), tensor.data.end());
  return file;
}

}  // namespace attention::server
