#include "server/checkpoint/formats/msgpack_array.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <msgpack.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr absl::string_view kSizes = "integers of at least 0";

std::optional<DType> FindDType(absl::string_view name) {
  for (int i = static_cast<int>(DType::kFloat32); i <= static_cast<int>(DType::kUInt64); ++i) {
    if (name == DTypeName(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Handles the events of the streaming parser for [[size, …], dtype, bytes] and stops it at the first other value.
class ArrayReader : public msgpack::null_visitor {
 public:
  bool visit_nil() { return Unexpected("nil"); }
  bool visit_boolean(bool value) { return Unexpected(value ? "true" : "false"); }
  bool visit_float32(float value) { return Unexpected(value); }
  bool visit_float64(double value) { return Unexpected(value); }
  bool visit_ext(const char*, uint32_t) { return Unexpected("an extension"); }
  bool start_map(uint32_t) { return Unexpected("a map"); }

  bool visit_positive_integer(uint64_t value) {
    if (state() != State::kSize) return Unexpected(value);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(FieldError("shape", "sizes below 2^63", value));
    }
    if (array_.shape.size() < kMaxAxes) array_.shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool visit_negative_integer(int64_t value) {
    // MessagePack allows a writer to store a non-negative number in a signed type.
    return value < 0 ? Unexpected(value) : visit_positive_integer(static_cast<uint64_t>(value));
  }

  bool visit_str(const char* text, uint32_t size) {
    const std::string name = absl::StrCat("\"", EscapeForMessage({text, size}), "\"");
    if (state() != State::kDType) return Unexpected(name);
    const std::optional<DType> dtype = FindDType({text, size});
    if (dtype) array_.dtype = *dtype;
    if (!dtype) array_.usable.Update(FieldError("dtype", "bool, bfloat16 or a numpy float or integer type", name));
    return true;
  }

  bool visit_bin(const char* data, uint32_t size) {
    if (state() != State::kBytes) return Unexpected("bytes");
    array_.pieces.push_back({reinterpret_cast<const std::byte*>(data), size});
    return true;
  }

  bool start_array(uint32_t size) {
    if (state() != State::kRoot && state() != State::kShape) return Unexpected("a list");
    if (state() == State::kRoot && size != 3) return Unexpected(absl::StrCat("a list of ", size));
    if (state() == State::kShape && size > kMaxAxes) {
      array_.usable.Update(FieldError("shape", absl::StrCat("at most ", kMaxAxes, " axes"), size));
    }
    ++depth_;
    return true;
  }

  bool end_array() {
    --depth_;
    return true;
  }

  bool end_array_item() {
    if (depth_ == 1) ++item_;
    return true;
  }

  const absl::Status& status() const { return status_; }
  MsgpackArray& array() { return array_; }

 private:
  // What the next value must be.
  enum class State { kRoot, kShape, kSize, kDType, kBytes };

  State state() const {
    if (depth_ == 0) return State::kRoot;
    if (depth_ == 2) return State::kSize;
    if (item_ == 0) return State::kShape;
    return item_ == 1 ? State::kDType : State::kBytes;
  }

  bool Unexpected(const absl::AlphaNum& got) {
    static constexpr std::pair<absl::string_view, absl::string_view> kFieldAndExpected[] = {
        {"array", "shape, dtype and bytes"},
        {"shape", "a list"},
        {"shape", kSizes},
        {"dtype", "text"},
        {"data", "bytes"},
    };
    const auto& [field, expected] = kFieldAndExpected[static_cast<int>(state())];
    return Fail(FieldError(field, expected, got));
  }

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  int depth_ = 0;  // of the current list
  int item_ = 0;   // of the outer list
  MsgpackArray array_;
  absl::Status status_;
};

// Collects the leaves of the map of an array in chunks, in any order.
class Chunks {
 public:
  explicit Chunks(absl::string_view name) : name_(name) {}

  absl::Status Add(const MsgpackLeaf& leaf) {
    absl::string_view key = leaf.name;
    key.remove_prefix(name_.size() + 1);
    if (key == kChunkedArray) {
      return leaf.text == "true" ? absl::OkStatus() : Fail(key, "true", leaf.is_array ? "an array" : leaf.text);
    }
    if (absl::ConsumePrefix(&key, "shape/")) return AddSize(key, leaf);
    if (absl::ConsumePrefix(&key, "chunks/")) return AddChunk(key, leaf);
    return Fail("keys", "shape and chunks", key);
  }

  absl::StatusOr<MsgpackArray> Join() {
    if (absl::Status status = SortByNumber("shape", sizes_); !status.ok()) return status;
    if (absl::Status status = SortByNumber("chunks", chunks_); !status.ok()) return status;
    if (chunks_.empty()) return Fail("chunks", "at least 1", "0");
    MsgpackArray result;
    result.dtype = chunks_[0].second->dtype;
    for (const auto& [number, size] : sizes_) result.shape.push_back(size);
    uint64_t bytes = 0;
    for (const auto& [number, chunk] : chunks_) {
      if (chunk->dtype != result.dtype) {
        return Fail(absl::StrCat("chunk ", number), absl::StrCat("dtype ", DTypeName(result.dtype), " as in chunk 0"),
                    DTypeName(chunk->dtype));
      }
      result.usable.Update(chunk->usable);
      bytes += chunk->pieces[0].size();
      result.pieces.push_back(chunk->pieces[0]);
    }
    if (!result.usable.ok()) return result;
    if (auto status = CheckByteCount(Field("chunks"), result.dtype, result.shape, bytes); !status.ok()) return status;
    return result;
  }

 private:
  std::string Field(absl::string_view key) const { return absl::StrCat(EscapeForMessage(name_), ": ", key); }

  absl::Status Fail(absl::string_view key, absl::string_view expected, absl::string_view got) const {
    return FieldError(Field(key), expected, EscapeForMessage(got));
  }

  absl::Status AddSize(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number, size;
    if (!absl::SimpleAtoi(key, &number)) return Fail("shape", "numbers as keys", key);
    if (leaf.is_array || !absl::SimpleAtoi(leaf.text, &size) || size < 0) {
      return Fail("shape", kSizes, leaf.is_array ? "an array" : leaf.text);
    }
    if (sizes_.size() == kMaxAxes) return Fail("shape", absl::StrCat("at most ", kMaxAxes, " axes"), "more");
    sizes_.emplace_back(number, size);
    return absl::OkStatus();
  }

  absl::Status AddChunk(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number;
    if (!absl::SimpleAtoi(key, &number)) return Fail("chunks", "numbers as keys", key);
    const std::string chunk = absl::StrCat("chunk ", number);
    constexpr absl::string_view kVector = "an array of one axis that is not in chunks itself";
    if (!leaf.is_array) return Fail(chunk, kVector, leaf.text);
    if (leaf.array.shape.size() != 1) return Fail(chunk, kVector, ShapeString(leaf.array.shape));
    if (leaf.array.pieces.size() != 1) return Fail(chunk, kVector, "an array in chunks");
    chunks_.emplace_back(number, &leaf.array);
    return absl::OkStatus();
  }

  // Fails unless the numbers are 0, 1, 2, …
  template <typename T>
  absl::Status SortByNumber(absl::string_view key, std::vector<std::pair<int64_t, T>>& parts) const {
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].first == static_cast<int64_t>(i)) continue;
      return absl::InvalidArgumentError(absl::StrCat(Field(key), ": number ", i, " is missing"));
    }
    return absl::OkStatus();
  }

  const absl::string_view name_;
  std::vector<std::pair<int64_t, int64_t>> sizes_;
  std::vector<std::pair<int64_t, const MsgpackArray*>> chunks_;
};

}  // namespace

absl::StatusOr<MsgpackArray> ParseMsgpackArray(absl::Span<const std::byte> payload) {
  ArrayReader reader;
  size_t end = 0;
  const bool is_whole = msgpack::parse(reinterpret_cast<const char*>(payload.data()), payload.size(), end, reader);
  if (!reader.status().ok()) return reader.status();
  if (!is_whole) return FieldError("array", "shape, dtype and bytes", "an incomplete list");
  if (end != payload.size()) {
    return FieldError("array", absl::StrCat(end, " bytes of shape, dtype and bytes"), payload.size());
  }
  MsgpackArray& array = reader.array();
  if (!array.usable.ok()) return std::move(array);
  auto status = CheckByteCount("data", array.dtype, array.shape, array.pieces[0].size());
  if (!status.ok()) return status;
  return std::move(array);
}

absl::StatusOr<MsgpackArray> JoinMsgpackChunks(absl::string_view name, absl::Span<const MsgpackLeaf> leaves) {
  Chunks chunks(name);
  for (const MsgpackLeaf& leaf : leaves) {
    if (absl::Status status = chunks.Add(leaf); !status.ok()) return status;
  }
  return chunks.Join();
}

}  // namespace attention::server
