#include "server/checkpoint/formats/msgpack.h"

#include <cstdint>
#include <msgpack.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxPaths = 100'000;
constexpr size_t kMaxPathBytes = 512;

// Extension types of flax.
constexpr int8_t kNdarray = 1, kNumpyScalar = 3;

// Follows the events of the parser, which takes no memory for what a file claims, and stops it at the first one that
// has no meaning here.
class TreeReader : public msgpack::null_visitor {
 public:
  bool visit_nil() { return IsLeaf("nil"); }
  bool visit_boolean(bool value) { return AddText(value ? "true" : "false"); }
  bool visit_float32(float value) { return AddText(FloatText(value)); }
  bool visit_float64(double value) { return AddText(NumberText(value)); }
  bool visit_bin(const char*, uint32_t) { return IsLeaf("bytes") && Fail("wanted an array or a number, found bytes"); }

  bool visit_positive_integer(uint64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }
  bool visit_negative_integer(int64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }

  bool visit_str(const char* data, uint32_t size) {
    const absl::string_view text(data, size);
    if (in_key_) return SetKey(text);
    return IsLeaf("text") && (IsUtf8(text) || Fail("text that is not UTF-8")) && AddText(std::string(text));
  }

  bool visit_ext(const char* data, uint32_t size) {
    if (!IsLeaf("an extension")) return false;
    // The parser counts the type in, and says 0 where that makes 2³².
    if (size == 0) return Fail("an extension of 4 GiB; wanted an array in chunks");
    const auto type = static_cast<int8_t>(data[0]);
    if (type != kNdarray && type != kNumpyScalar) {
      return Fail(absl::StrCat("extension type ", type, ": wanted 1 (an array) or 3 (a scalar of numpy)"));
    }
    absl::StatusOr<MsgpackArray> array = ParseMsgpackArray({reinterpret_cast<const std::byte*>(data) + 1, size - 1});
    if (!array.ok()) return Fail(array.status().message());
    AddArray(*std::move(array));
    return true;
  }

  bool start_map(uint32_t) {
    if (in_key_) return BadKey("a map");
    return StartBranch({.path_bytes = path_.size(), .first_leaf = leaves_.size()});
  }
  bool start_map_key() {
    in_key_ = true;
    return true;
  }
  bool end_map_key() {
    in_key_ = false;
    return true;
  }
  bool end_map() {
    const Branch branch = branches_.back();
    branches_.pop_back();
    return !branch.is_chunked || FinishChunkedArray(branch);
  }

  bool start_array(uint32_t) {
    if (!IsLeaf("a list")) return false;
    return StartBranch({.path_bytes = path_.size(), .first_leaf = leaves_.size()});
  }
  bool start_array_item() { return SetKey(absl::StrCat(branches_.back().items++)); }
  bool end_array() {
    branches_.pop_back();
    return true;
  }

  void parse_error(size_t, size_t offset) {
    status_ = absl::InvalidArgumentError(absl::StrCat("msgpack: byte ", offset, " begins no value"));
  }
  void insufficient_bytes(size_t, size_t) { is_whole_ = false; }

  const absl::Status& status() const { return status_; }
  MsgpackTree TakeTree() { return {std::move(leaves_), is_whole_}; }

 private:
  // A map or list that is being read.
  struct Branch {
    size_t path_bytes = 0;  // of its own path
    size_t first_leaf = 0;
    uint64_t items = 0;  // of a list
    bool is_chunked = false;
  };

  static std::string FloatText(float value) {
    return NumberText({"", DType::kFloat32, {}, {reinterpret_cast<const std::byte*>(&value), sizeof(value)}});
  }

  bool Fail(absl::string_view what) {
    status_ = absl::InvalidArgumentError(absl::StrCat(path_.empty() ? "msgpack" : EscapeForMessage(path_), ": ", what));
    return false;
  }

  bool BadKey(absl::string_view found) {
    path_.resize(branches_.back().path_bytes);
    return Fail(absl::StrCat("wanted text or a number as key, found ", found));
  }

  // True if a leaf may stand here.
  bool IsLeaf(absl::string_view found) {
    if (branches_.empty()) return Fail(absl::StrCat("wanted a map, found ", found));
    return !in_key_ || BadKey(found);
  }

  bool AddText(std::string text) {
    if (!IsLeaf(text)) return false;
    leaves_.push_back({.name = path_, .is_array = false, .array = {}, .text = std::move(text)});
    return true;
  }

  void AddArray(MsgpackArray array) {
    leaves_.push_back({.name = path_, .is_array = true, .array = std::move(array), .text = ""});
  }

  bool SetKey(absl::string_view key) {
    path_.resize(branches_.back().path_bytes);
    if (key.empty() || HasControlCharacter(key) || !IsUtf8(key)) {
      return Fail(
          absl::StrCat("the key \"", EscapeForMessage(key), "\" is empty, not UTF-8 or has a control character"));
    }
    if (path_.size() + 1 + key.size() > kMaxPathBytes) {
      return Fail(
          absl::StrCat("the key \"", EscapeForMessage(key), "\" makes a name of more than ", kMaxPathBytes, " bytes"));
    }
    absl::StrAppend(&path_, path_.empty() ? "" : "/", key);
    if (paths_.size() == kMaxPaths) return Fail(absl::StrCat("wanted at most ", kMaxPaths, " keys"));
    if (!paths_.insert(path_).second) return Fail("duplicate key");
    if (key == kChunkedArray) branches_.back().is_chunked = true;
    return true;
  }

  bool StartBranch(const Branch& branch) {
    if (branches_.size() == kMaxDepth) return Fail(absl::StrCat("wanted at most ", kMaxDepth, " levels"));
    branches_.push_back(branch);
    return true;
  }

  bool FinishChunkedArray(const Branch& branch) {
    path_.resize(branch.path_bytes);
    if (path_.empty()) return Fail("wanted a map of names, found an array in chunks");
    absl::StatusOr<MsgpackArray> array =
        JoinMsgpackChunks(path_, absl::MakeConstSpan(leaves_).subspan(branch.first_leaf));
    if (!array.ok()) {
      status_ = array.status();
      return false;
    }
    leaves_.resize(branch.first_leaf);
    AddArray(*std::move(array));
    return true;
  }

  std::vector<Branch> branches_;
  bool in_key_ = false;
  std::string path_;                        // of the value or key that is being read
  absl::flat_hash_set<std::string> paths_;  // of all leaves and branches so far
  std::vector<MsgpackLeaf> leaves_;
  bool is_whole_ = true;
  absl::Status status_;
};

// The pieces as one, in storage of the map if there are several.
absl::Span<const std::byte> OnePiece(const MsgpackArray& array, TensorMap& map) {
  if (array.pieces.size() == 1) return array.pieces[0];
  std::vector<std::byte> joined;
  joined.reserve(*ByteCount(array.shape, array.dtype));
  for (const absl::Span<const std::byte> piece : array.pieces) {
    joined.insert(joined.end(), piece.begin(), piece.end());
  }
  return map.storage.emplace_back(std::move(joined));
}

}  // namespace

absl::StatusOr<MsgpackTree> ReadMsgpackTree(absl::Span<const std::byte> bytes) {
  TreeReader reader;
  size_t end = 0;
  msgpack::parse(reinterpret_cast<const char*>(bytes.data()), bytes.size(), end, reader);
  if (!reader.status().ok()) return reader.status();
  MsgpackTree tree = reader.TakeTree();
  if (!tree.is_whole || end == bytes.size()) return tree;
  return absl::InvalidArgumentError(
      absl::StrCat("msgpack: wanted nothing behind the map, which ends at byte ", end, " of ", bytes.size()));
}

absl::StatusOr<TensorMap> ParseMsgpack(absl::Span<const std::byte> file) {
  absl::StatusOr<MsgpackTree> tree = ReadMsgpackTree(file);
  if (!tree.ok()) return tree.status();
  if (!tree->is_whole) {
    return absl::InvalidArgumentError(absl::StrCat(
        "msgpack: ends within its map, after ",
        tree->leaves.empty() ? "no leaf" : absl::StrCat("\"", EscapeForMessage(tree->leaves.back().name), "\"")));
  }
  TensorMap map;
  for (MsgpackLeaf& leaf : tree->leaves) {
    if (!leaf.is_array) {
      map.metadata.emplace(std::move(leaf.name), std::move(leaf.text));
      continue;
    }
    const absl::Span<const std::byte> data = OnePiece(leaf.array, map);
    NamedTensor tensor{std::move(leaf.name), leaf.array.dtype, std::move(leaf.array.shape), data};
    if (tensor.shape.empty()) {
      map.metadata.emplace(tensor.name, NumberText(tensor));
    } else {
      map.tensors.push_back(std::move(tensor));
    }
  }
  if (absl::Status status = SortByName(map.tensors); !status.ok()) return status;
  return map;
}

absl::Status CheckMsgpackStart(absl::Span<const std::byte> start) { return ReadMsgpackTree(start).status(); }

}  // namespace attention::server
