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
    return NpyHeader{.dtype = *dtype_,
                     .shape = *std::move(shape_),
                     .column_major = column_major_,
                     .data_at = 0,
                     .usable = std::move(usable_)};
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
    dtype_ = DType::kFloat32;
    if (Take("[")) {
      usable_.Update(absl::InvalidArgumentError("npy: descr: structured arrays are not supported; save one field"));
      return RestOfList();
    }
    const absl::StatusOr<absl::string_view> descr = String();
    if (!descr.ok()) return descr.status();
    const absl::StatusOr<DType> dtype = ReadDescr(*descr);
    if (dtype.ok()) dtype_ = *dtype;
    usable_.Update(dtype.status());
    return absl::OkStatus();
  }

  // The types of a structured array: nested lists and tuples of strings and numbers.
  absl::Status RestOfList() {
    for (int depth = 1; depth > 0;) {
      const size_t next = rest_.find_first_of("[]'\"");
      if (next == absl::string_view::npos) return Malformed("']'", rest_);
      const char found = rest_[next];
      rest_.remove_prefix(next);
      if (found == '\'' || found == '"') {
        if (const auto text = String(); !text.ok()) return text.status();
        continue;
      }
      rest_.remove_prefix(1);
      depth += found == '[' ? 1 : -1;
    }
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
    if (shape_->size() < kMaxAxes) {
      shape_->push_back(size);
    } else {
      usable_.Update(FieldError("npy: shape", absl::StrCat("at most ", kMaxAxes, " axes"), "more"));
    }
    rest_.remove_prefix(digits);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  bool has_order_ = false, column_major_ = false;
  absl::Status usable_;
};

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

// Where the header is in a file.
struct HeaderRange {
  uint64_t begin = 0, end = 0;
};

absl::StatusOr<HeaderRange> FindHeader(absl::Span<const std::byte> start, uint64_t file_size) {
  const absl::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
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
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  const uint64_t begin = length_at + length_bytes;
  const uint64_t longest = file_size - begin;
  if (length > longest) return FieldError("npy: header length", absl::StrCat("at most ", longest), length);
  return HeaderRange{begin, begin + length};
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

absl::StatusOr<uint64_t> NpyHeaderEnd(absl::Span<const std::byte> start, uint64_t file_size) {
  const absl::StatusOr<HeaderRange> range = FindHeader(start, file_size);
  if (!range.ok()) return range.status();
  return range->end;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const std::byte> start, uint64_t file_size) {
  const absl::StatusOr<HeaderRange> range = FindHeader(start, file_size);
  if (!range.ok()) return range.status();
  const absl::string_view text(reinterpret_cast<const char*>(start.data()), range->end);
  absl::StatusOr<NpyHeader> header = DictReader(text.substr(range->begin)).Read();
  if (!header.ok()) return header;
  header->data_at = range->end;
  if (!header->usable.ok()) return header;
  auto status = CheckByteCount("npy: data", header->dtype, header->shape, file_size - range->end);
  if (!status.ok()) return status;
  return header;
}

std::vector<std::byte> InRowMajor(std::vector<std::byte> data, const NpyHeader& header) {
  if (!header.column_major || data.empty() || header.shape.size() < 2) return data;
  return ToRowMajor(data, header.shape, DTypeSize(header.dtype));
}

absl::StatusOr<TensorMap> ParseNpy(absl::Span<const std::byte> file) {
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(file, file.size());
  if (!header.ok()) return header.status();
  if (!header->usable.ok()) return header->usable;
  TensorMap map;
  absl::Span<const std::byte> data = file.subspan(header->data_at);
  if (header->column_major) {
    map.storage.push_back(InRowMajor({data.begin(), data.end()}, *header));
    data = map.storage.back();
  }
  map.tensors.push_back({.dtype = header->dtype, .shape = std::move(header->shape), .data = data});
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
