#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/safetensors.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr char kMetadata[] = "__metadata__";

constexpr std::pair<absl::string_view, DType> kDTypes[] = {
    {"F64", DType::kFloat64}, {"F32", DType::kFloat32}, {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16},
    {"BOOL", DType::kBool},   {"U8", DType::kUInt8},    {"I8", DType::kInt8},     {"I16", DType::kInt16},
    {"U16", DType::kUInt16},  {"I32", DType::kInt32},   {"U32", DType::kUInt32},  {"I64", DType::kInt64},
    {"U64", DType::kUInt64},
};

// Follows the events of nlohmann's SAX parser, and stops it at the first one that the format does not have. The events,
// unlike a document made of them, show a key that stands twice, with its escapes decoded; and nothing is nested deeper
// than `Place` goes.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool value) override { return Unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Unexpected(absl::StrCat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Unexpected(EscapeForMessage(text)); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) return AddSize(value);
    if (place_ == Place::kOffsets) return AddOffset(value);
    return Unexpected(absl::StrCat(value));
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kTensor && key_ == "dtype") return SetDType(value);
    return Unexpected(absl::StrCat("\"", EscapeForMessage(value), "\""));
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kRoot;
    } else if (place_ == Place::kRoot) {
      place_ = tensor_.name == kMetadata ? Place::kMetadata : Place::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (place_ == Place::kRoot) return StartEntry(std::move(key));
    key_ = std::move(key);
    return place_ == Place::kMetadata ? StartMetadataValue() : StartField();
  }

  bool end_object() override {
    const bool ends_tensor = place_ == Place::kTensor;
    place_ = Place::kRoot;
    return !ends_tensor || FinishTensor();
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Unexpected("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    const bool ends_offsets = place_ == Place::kOffsets;
    place_ = Place::kTensor;
    return !ends_offsets || offset_count_ == 2 || Fail(WrongOffsetCount(absl::StrCat(offset_count_)));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("header: not a JSON object in UTF-8, first wrong at byte ", position));
  }

  const absl::Status& status() const { return status_; }
  SafetensorsHeader& header() { return header_; }

 private:
  enum class Place { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets };

  bool Fail(const std::string& message) {
    status_ = absl::InvalidArgumentError(message);
    return false;
  }

  // A value of a kind that cannot stand at this place. `found` must be printable.
  bool Unexpected(absl::string_view found) {
    const auto wanted = [this]() -> std::string {
      if (place_ == Place::kStart) return "header: wanted an object";
      if (place_ == Place::kRoot) return absl::StrCat(EscapeForMessage(tensor_.name), ": wanted an object");
      if (place_ == Place::kMetadata) return absl::StrCat(kMetadata, ": ", EscapeForMessage(key_), ": wanted a string");
      if (place_ == Place::kTensor) return absl::StrCat(Field(), ": wanted a ", key_ == "dtype" ? "string" : "list");
      return absl::StrCat(Field(), ": wanted whole numbers, none negative");
    };
    return Fail(absl::StrCat(wanted(), ", found ", found));
  }

  std::string Field() const { return absl::StrCat(EscapeForMessage(tensor_.name), ": ", EscapeForMessage(key_)); }

  bool StartEntry(std::string name) {
    tensor_ = SafetensorsEntry{};
    tensor_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offset_count_ = 0;
    if (HasControlCharacter(tensor_.name)) {
      return Fail(
          absl::StrCat("header: control character in the tensor name \"", EscapeForMessage(tensor_.name), "\""));
    }
    if (tensor_.name == kMetadata && std::exchange(has_metadata_, true)) {
      return Fail(absl::StrCat("header: duplicate ", kMetadata));
    }
    return true;
  }

  bool StartMetadataValue() {
    if (header_.metadata.emplace(key_, "").second) return true;
    return Fail(absl::StrCat(kMetadata, ": duplicate key ", EscapeForMessage(key_)));
  }

  bool StartField() {
    bool* const seen = key_ == "dtype"          ? &has_dtype_
                       : key_ == "shape"        ? &has_shape_
                       : key_ == "data_offsets" ? &has_offsets_
                                                : nullptr;
    if (seen == nullptr) return Fail(absl::StrCat(Field(), ": unknown field, wanted dtype, shape and data_offsets"));
    return !std::exchange(*seen, true) ||
           Fail(absl::StrCat(EscapeForMessage(tensor_.name), ": duplicate field ", key_));
  }

  bool SetDType(absl::string_view name) {
    for (const auto& [known, dtype] : kDTypes) {
      if (name != known) continue;
      tensor_.dtype = dtype;
      return true;
    }
    return Fail(absl::StrCat(Field(), " \"", EscapeForMessage(name),
                             "\" is unknown, wanted F64, F32, F16, BF16, BOOL or I or U with 8, 16, 32 or 64"));
  }

  bool AddSize(uint64_t size) {
    if (tensor_.shape.size() == kMaxAxes) return Fail(absl::StrCat(Field(), ": wanted at most ", kMaxAxes, " axes"));
    if (size > std::numeric_limits<int64_t>::max())
      return Fail(absl::StrCat(Field(), ": size ", size, " is too large"));
    tensor_.shape.push_back(static_cast<int64_t>(size));
    return true;
  }

  bool AddOffset(uint64_t offset) {
    if (offset_count_ == 2) return Fail(WrongOffsetCount("more"));
    (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = offset;
    return true;
  }

  std::string WrongOffsetCount(absl::string_view found) const {
    return absl::StrCat(Field(), ": wanted 2 numbers, found ", found);
  }

  bool FinishTensor() {
    for (const auto& [seen, field] :
         {std::pair(has_dtype_, "dtype"), std::pair(has_shape_, "shape"), std::pair(has_offsets_, "data_offsets")}) {
      if (!seen) return Fail(absl::StrCat(EscapeForMessage(tensor_.name), ": ", field, " is missing"));
    }
    header_.entries.push_back(std::move(tensor_));
    return true;
  }

  Place place_ = Place::kStart;
  std::string key_;  // within a tensor or the metadata
  SafetensorsEntry tensor_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
  int offset_count_ = 0;

  SafetensorsHeader header_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text) {
  if (text.empty() || text[0] != '{') return absl::InvalidArgumentError("header: wanted '{' as its first byte");
  // The parser would take a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("header: not JSON, zero at byte ", zero));
  }
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return reader.status();

  SafetensorsHeader header = std::move(reader.header());
  std::vector<SafetensorsEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice == entries.end()) return header;
  return absl::InvalidArgumentError(absl::StrCat("header: duplicate tensor ", EscapeForMessage(twice->name)));
}

absl::string_view SafetensorsDTypeName(DType dtype) {
  for (const auto& [name, known] : kDTypes) {
    if (dtype == known) return name;
  }
  return "";
}

}  // namespace attention::server
