#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/weights/formats/echo.h"
#include "server/weights/formats/msgpack_array.h"
#include "server/weights/formats/tensor_map.h"

namespace attention::server {
namespace {

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
    return Fail("wanted shape and chunks, found ", Echo(key));
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
    return absl::InvalidArgumentError(absl::StrCat(Echo(name_), ": ", parts...));
  }

  absl::Status AddSize(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number, size;
    if (!absl::SimpleAtoi(key, &number)) return Fail("shape: wanted numbers as keys, found ", Echo(key));
    if (leaf.is_array || !absl::SimpleAtoi(leaf.text, &size) || size < 0) {
      return Fail("shape: wanted whole numbers, none negative, found ", leaf.is_array ? "an array" : Echo(leaf.text));
    }
    if (sizes_.size() == kMaxAxes) return Fail("shape: wanted at most ", kMaxAxes, " axes");
    sizes_.emplace_back(number, size);
    return absl::OkStatus();
  }

  absl::Status AddChunk(absl::string_view key, const MsgpackLeaf& leaf) {
    int64_t number;
    if (!absl::SimpleAtoi(key, &number)) return Fail("chunks: wanted numbers as keys, found ", Echo(key));
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

absl::StatusOr<MsgpackArray> JoinMsgpackChunks(absl::string_view name, absl::Span<const MsgpackLeaf> leaves) {
  Chunks chunks(name);
  for (const MsgpackLeaf& leaf : leaves) {
    if (absl::Status status = chunks.Add(leaf); !status.ok()) return status;
  }
  return chunks.Join();
}

}  // namespace attention::server
