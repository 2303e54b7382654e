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

std::optional<DType> FindDType(absl::string_view name) {
  for (int i = static_cast<int>(DType::kFloat32); i <= static_cast<int>(DType::kUInt64); ++i) {
    if (name == DTypeName(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Follows the parser's events through [[size, …], dtype, bytes], and stops it at the first one that is another.
class ArrayReader : public msgpack::null_visitor {
 public:
  bool visit_nil() { return Unexpected("nil"); }
  bool visit_boolean(bool value) { return Unexpected(value ? "true" : "false"); }
  bool visit_float32(float value) { return Unexpected(absl::StrCat(value)); }
  bool visit_float64(double value) { return Unexpected(absl::StrCat(value)); }
  bool visit_ext(const char*, uint32_t) { return Unexpected("an extension"); }
  bool start_map(uint32_t) { return Unexpected("a map"); }

  bool visit_positive_integer(uint64_t value) {
    if (place() != Place::kSize) return Unexpected(absl::StrCat(value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat("shape: size ", value, " is too large"));
    }
    array_.shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool visit_negative_integer(int64_t value) {
    // The format lets a writer store numbers that are not negative in signed types.
    return value < 0 ? Unexpected(absl::StrCat(value)) : visit_positive_integer(static_cast<uint64_t>(value));
  }

  bool visit_str(const char* text, uint32_t size) {
    const absl::string_view name(text, size);
    if (place() != Place::kDType) return Unexpected(absl::StrCat("\"", EscapeForMessage(name), "\""));
    const std::optional<DType> dtype = FindDType(name);
    if (dtype) array_.dtype = *dtype;
    return dtype || Fail(absl::StrCat("dtype \"", EscapeForMessage(name),
                                      "\": wanted bool, bfloat16, or float or int of numpy"));
  }

  bool visit_bin(const char* data, uint32_t size) {
    if (place() != Place::kBytes) return Unexpected("bytes");
    array_.pieces.push_back({reinterpret_cast<const std::byte*>(data), size});
    return true;
  }

  bool start_array(uint32_t size) {
    if (place() != Place::kRoot && place() != Place::kShape) return Unexpected("a list");
    if (place() == Place::kRoot && size != 3) return Fail(absl::StrCat("wanted shape, dtype and bytes, found ", size));
    if (place() == Place::kShape && size > kMaxAxes) {
      return Fail(absl::StrCat("shape: wanted at most ", kMaxAxes, " axes, found ", size));
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
  enum class Place { kRoot, kShape, kSize, kDType, kBytes };

  Place place() const {
    if (depth_ == 0) return Place::kRoot;
    if (depth_ == 2) return Place::kSize;
    if (item_ == 0) return Place::kShape;
    return item_ == 1 ? Place::kDType : Place::kBytes;
  }

  bool Unexpected(absl::string_view found) {
    constexpr absl::string_view kWanted[] = {"wanted shape, dtype and bytes", "shape: wanted a list",
                                             "shape: wanted whole numbers, none negative", "dtype: wanted text",
                                             "data: wanted bytes"};
    return Fail(absl::StrCat(kWanted[static_cast<int>(place())], ", found ", found));
  }

  bool Fail(const std::string& message) {
    status_ = absl::InvalidArgumentError(message);
    return false;
  }

  int depth_ = 0;  // of the list that is read
  int item_ = 0;   // of the outer list
  MsgpackArray array_;
  absl::Status status_;
};

// The map of an array in chunks, as its leaves stand in the file: in any order.
class Chunks {
 public:
  explicit Chunks(absl::string_view name) : name_(name) {}

  absl::Status Add(const MsgpackLeaf& leaf) {
    absl::string_view key = leaf.name;
    key.remove_prefix(name_.size() + 1);
    if (key == kChunkedArray) return leaf.text == "true" ? absl::OkStatus() : Fail(key, ": wanted true");
    if (absl::ConsumePrefix(&key, "shape/")) return AddSize(key, leaf);
    if (absl::ConsumePrefix(&key, "chunks/")) return AddChunk(key, leaf);
    return Fail("wanted shape and chunks, found ", EscapeForMessage(key));
  }

  absl::StatusOr<MsgpackArray> Join() {
    if (absl::Status status = SortByNumber("shape", sizes_); !status.ok()) return status;
    if (absl::Status status = SortByNumber("chunks", chunks_); !status.ok()) return status;
    if (chunks_.empty()) return Fail("chunks: wanted at least one");
    MsgpackArray result;
    result.dtype = chunks_[0].second->dtype;
    for (const auto& [number, size] : sizes_) result.shape.push_back(size);
    uint64_t found = 0;
    for (const auto& [number, chunk] : chunks_) {
      if (chunk->dtype != result.dtype) {
        return Fail("chunk ", number, ": dtype ", DTypeName(chunk->dtype), ", wanted ", DTypeName(result.dtype),
                    " as chunk 0");
      }
      found += chunk->pieces[0].size();
      result.pieces.push_back(chunk->pieces[0]);
    }
    const std::optional<int64_t> wanted = ByteCount(result.shape, result.dtype);
    if (wanted && static_cast<uint64_t>(*wanted) == found) return result;
    return Fail("chunks: ", found, " bytes together, wanted ",
                wanted ? absl::StrCat(*wanted) : "more than there can be", " for ", DTypeName(result.dtype), " ",
                ShapeString(result.shape));
  }

 private:
  template <typename... Parts>
  absl::Status Fail(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(name_), ": ", parts...));
  }

  absl::Status AddSize(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number, size;
    if (!absl::SimpleAtoi(key, &number)) return Fail("shape: wanted numbers as keys, found ", EscapeForMessage(key));
    if (leaf.is_array || !absl::SimpleAtoi(leaf.text, &size) || size < 0) {
      return Fail("shape: wanted whole numbers, none negative, found ",
                  leaf.is_array ? "an array" : EscapeForMessage(leaf.text));
    }
    if (sizes_.size() == kMaxAxes) return Fail("shape: wanted at most ", kMaxAxes, " axes");
    sizes_.emplace_back(number, size);
    return absl::OkStatus();
  }

  absl::Status AddChunk(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number;
    if (!absl::SimpleAtoi(key, &number)) return Fail("chunks: wanted numbers as keys, found ", EscapeForMessage(key));
    if (!leaf.is_array || leaf.array.shape.size() != 1 || leaf.array.pieces.size() != 1) {
      return Fail("chunk ", number, ": wanted an array of one axis, itself in one piece");
    }
    chunks_.emplace_back(number, &leaf.array);
    return absl::OkStatus();
  }

  // The numbers must then be 0, 1, 2, …
  template <typename T>
  absl::Status SortByNumber(absl::string_view what, std::vector<std::pair<int64_t, T>>& parts) const {
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].first != static_cast<int64_t>(i)) return Fail(what, ": number ", i, " is missing");
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
  const bool done = msgpack::parse(reinterpret_cast<const char*>(payload.data()), payload.size(), end, reader);
  if (!reader.status().ok()) return reader.status();
  if (!done) return absl::InvalidArgumentError("wanted shape, dtype and bytes, found no whole list");
  if (end != payload.size()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted nothing behind the data, found ", payload.size() - end));
  }
  MsgpackArray& array = reader.array();
  const std::optional<int64_t> wanted = ByteCount(array.shape, array.dtype);
  if (wanted && static_cast<uint64_t>(*wanted) == array.pieces[0].size()) return std::move(array);
  return absl::InvalidArgumentError(absl::StrCat(array.pieces[0].size(), " bytes of data, wanted ",
                                                 wanted ? absl::StrCat(*wanted) : "more than there can be", " for ",
                                                 DTypeName(array.dtype), " ", ShapeString(array.shape)));
}

absl::StatusOr<MsgpackArray> JoinMsgpackChunks(absl::string_view name, absl::Span<const MsgpackLeaf> leaves) {
  Chunks chunks(name);
  for (const MsgpackLeaf& leaf : leaves) {
    if (absl::Status status = chunks.Add(leaf); !status.ok()) return status;
  }
  return chunks.Join();
}

}  // namespace attention::server
