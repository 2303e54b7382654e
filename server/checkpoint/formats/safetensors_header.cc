#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// Handles the events of nlohmann's SAX parser and stops it at the first value that is not in the format. Unlike a
// parsed document, the events show duplicate keys, with their escapes decoded, and cannot be nested deeper than
// `State`.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool value) override { return Unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Unexpected(value); }
  bool number_float(number_float_t, const string_t& text) override { return Unexpected(EscapeForMessage(text)); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) return AddSize(value);
    if (state_ == State::kOffsets) return AddOffset(value);
    return Unexpected(value);
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (state_ == State::kTensor && key_ == "dtype") return SetDType(value);
    return Unexpected(absl::StrCat("\"", EscapeForMessage(value), "\""));
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kRoot;
    } else if (state_ == State::kRoot) {
      state_ = tensor_.name == kMetadata ? State::kMetadata : State::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (state_ == State::kRoot) return StartEntry(std::move(key));
    key_ = std::move(key);
    return state_ == State::kMetadata ? StartMetadataValue() : StartField();
  }

  bool end_object() override {
    const bool ends_tensor = state_ == State::kTensor;
    state_ = State::kRoot;
    return !ends_tensor || FinishTensor();
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kTensor || key_ == "dtype") return Unexpected("a list");
    state_ = key_ == "shape" ? State::kShape : State::kOffsets;
    return true;
  }

  bool end_array() override {
    const bool ends_offsets = state_ == State::kOffsets;
    state_ = State::kTensor;
    return !ends_offsets || offset_count_ == 2 || WrongOffsetCount(absl::StrCat(offset_count_));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("header: not a JSON object in UTF-8, invalid at byte ", position)));
  }

  const absl::Status& status() const { return status_; }
  SafetensorsHeader& header() { return header_; }

 private:
  enum class State { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets };

  // Always returns false, which stops the parser.
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  // Always returns true: the other tensors can be used. The first reason is kept.
  bool MakeUnusable(absl::Status status) {
    tensor_.usable.Update(std::move(status));
    return true;
  }

  bool Duplicate(absl::string_view field, absl::string_view key) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(field, ": duplicate key ", EscapeForMessage(key))));
  }

  // A value of a kind that is not valid in this state. `got` must be printable.
  bool Unexpected(const absl::AlphaNum& got) {
    switch (state_) {
      case State::kStart:
        return Fail(FieldError("header", "an object", got));
      case State::kRoot:
        return Fail(FieldError(EscapeForMessage(tensor_.name), "an object", got));
      case State::kMetadata:
        return Fail(FieldError(absl::StrCat(kMetadata, ": ", EscapeForMessage(key_)), "a string", got));
      case State::kTensor:
        return Fail(FieldError(Field(), key_ == "dtype" ? "a string" : "a list", got));
      case State::kShape:
      case State::kOffsets:
        break;
    }
    return Fail(FieldError(Field(), "integers of at least 0", got));
  }

  std::string Field() const { return absl::StrCat(EscapeForMessage(tensor_.name), ": ", EscapeForMessage(key_)); }

  bool StartEntry(std::string name) {
    tensor_ = SafetensorsEntry{};
    tensor_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offset_count_ = 0;
    tensor_.usable = CheckTensorName("header", tensor_.name);
    return tensor_.name != kMetadata || !std::exchange(has_metadata_, true) || Duplicate("header", kMetadata);
  }

  bool StartMetadataValue() { return header_.metadata.emplace(key_, "").second || Duplicate(kMetadata, key_); }

  bool StartField() {
    bool* const seen = key_ == "dtype"          ? &has_dtype_
                       : key_ == "shape"        ? &has_shape_
                       : key_ == "data_offsets" ? &has_offsets_
                                                : nullptr;
    const std::string name = EscapeForMessage(tensor_.name);
    if (seen == nullptr)
      return Fail(FieldError(name, "the keys dtype, shape and data_offsets", EscapeForMessage(key_)));
    return !std::exchange(*seen, true) || Duplicate(name, key_);
  }

  bool SetDType(absl::string_view name) {
    std::vector<absl::string_view> names;
    for (const auto& [known, dtype] : kDTypes) {
      names.push_back(known);
      if (name != known) continue;
      tensor_.dtype = dtype;
      return true;
    }
    return MakeUnusable(FieldError(Field(), absl::StrCat("one of ", absl::StrJoin(names, ", ")),
                                   absl::StrCat("\"", EscapeForMessage(name), "\"")));
  }

  bool AddSize(uint64_t size) {
    if (tensor_.shape.size() == kMaxAxes) {
      return MakeUnusable(FieldError(Field(), absl::StrCat("at most ", kMaxAxes, " axes"), "more"));
    }
    if (size > std::numeric_limits<int64_t>::max()) return Fail(FieldError(Field(), "sizes below 2^63", size));
    tensor_.shape.push_back(static_cast<int64_t>(size));
    return true;
  }

  bool AddOffset(uint64_t offset) {
    if (offset_count_ == 2) return WrongOffsetCount("more");
    (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = offset;
    return true;
  }

  bool WrongOffsetCount(absl::string_view got) { return Fail(FieldError(Field(), "2 numbers", got)); }

  bool FinishTensor() {
    for (const auto& [seen, field] :
         {std::pair(has_dtype_, "dtype"), std::pair(has_shape_, "shape"), std::pair(has_offsets_, "data_offsets")}) {
      if (seen) continue;
      return Fail(absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(tensor_.name), ": ", field, " is missing")));
    }
    header_.entries.push_back(std::move(tensor_));
    return true;
  }

  State state_ = State::kStart;
  std::string key_;  // of a tensor or the metadata
  SafetensorsEntry tensor_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
  int offset_count_ = 0;

  SafetensorsHeader header_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text) {
  if (text.empty() || text[0] != '{') {
    return FieldError("header", "'{' as the first byte", absl::StrCat("\"", EscapeForMessage(text.substr(0, 1)), "\""));
  }
  // nlohmann's parser takes a zero byte as the end of the text.
  if (const size_t zero = text.find('\0'); zero != absl::string_view::npos) {
    return FieldError("header", "a JSON object", absl::StrCat("a zero byte at byte ", zero));
  }
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return reader.status();

  SafetensorsHeader header = std::move(reader.header());
  std::vector<SafetensorsEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto duplicate =
      std::adjacent_find(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (duplicate == entries.end()) return header;
  return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(duplicate->name), ": duplicate tensor name"));
}

absl::string_view SafetensorsDTypeName(DType dtype) {
  for (const auto& [name, known] : kDTypes) {
    if (dtype == known) return name;
  }
  return "";
}

}  // namespace attention::server
