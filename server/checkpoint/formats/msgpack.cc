#include "server/checkpoint/formats/msgpack.h"

#include <cstdint>
#include <functional>
#include <msgpack.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/msgpack_array.h"

namespace attention::server {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxPaths = 100'000;
constexpr size_t kMaxPathBytes = 512;

// Extension types that flax writes.
constexpr int kNdarray = 1, kNumpyScalar = 3;

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", EscapeForMessage(text), "\""); }

std::string FloatText(float value) {
  return NumberText({.data = {reinterpret_cast<const std::byte*>(&value), sizeof(value)}});
}

struct MsgpackTree {
  std::vector<MsgpackLeaf> leaves;  // in file order; an array in chunks is one leaf
  bool is_whole = true;             // false: the bytes end before the tree does
};

// Handles the events of the streaming parser, which allocates nothing for sizes that a file only claims, and stops the
// parser at the first unsupported value.
class TreeReader : public msgpack::null_visitor {
 public:
  bool visit_nil() { return CheckLeaf("nil"); }
  bool visit_boolean(bool value) { return AddText(value ? "true" : "false"); }
  bool visit_float32(float value) { return AddText(FloatText(value)); }
  bool visit_float64(double value) { return AddText(NumberText(value)); }
  bool visit_bin(const char*, uint32_t) { return CheckLeaf("bytes") && AddUnusable("an array or a number", "bytes"); }

  bool visit_positive_integer(uint64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }
  bool visit_negative_integer(int64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }

  bool visit_str(const char* data, uint32_t size) {
    const absl::string_view text(data, size);
    if (in_key_) return SetKey(text);
    if (!CheckLeaf("text")) return false;
    return IsUtf8(text) ? AddText(std::string(text)) : AddUnusable("text in UTF-8", Quoted(text));
  }

  bool visit_ext(const char* data, uint32_t size) {
    if (!CheckLeaf("an extension")) return false;
    // `size` includes the type byte; for the largest extension the sum wraps to 0.
    if (size == 0) return Fail("an array in chunks", "an extension of 4 GiB");
    const int type = static_cast<int8_t>(data[0]);
    if (type != kNdarray && type != kNumpyScalar) {
      return AddUnusable("extension type 1 (an array) or 3 (a numpy scalar)", type);
    }
    absl::StatusOr<MsgpackArray> array = ParseMsgpackArray({reinterpret_cast<const std::byte*>(data) + 1, size - 1});
    if (!array.ok()) return FailWith(array.status().message());
    if (!array->usable.ok()) array->usable = Named(array->usable.message());
    AddArray(*std::move(array));
    return true;
  }

  bool start_map(uint32_t) {
    if (in_key_) return BadKey("a map");
    return StartBranch();
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

  bool start_array(uint32_t) { return CheckLeaf("a list") && StartBranch(); }
  bool start_array_item() { return SetKey(absl::StrCat(branches_.back().items++)); }
  bool end_array() {
    branches_.pop_back();
    return true;
  }

  void parse_error(size_t, size_t offset) {
    status_ = absl::InvalidArgumentError(absl::StrCat("msgpack: byte ", offset, " does not start a value"));
  }
  void insufficient_bytes(size_t, size_t) { tree_.is_whole = false; }

  const absl::Status& status() const { return status_; }
  MsgpackTree TakeTree() { return std::move(tree_); }

 private:
  // An open map or list.
  struct Branch {
    size_t path_bytes = 0;    // length of its own path
    size_t first_leaf = 0;    // index of its first leaf
    uint64_t items = 0;       // items of a list so far
    bool is_chunked = false;  // a map with the key kChunkedArray
    absl::Status usable;      // of its path
  };

  std::string Field() const { return path_.empty() ? "msgpack" : EscapeForMessage(path_); }

  // These return false, which stops the parser.
  bool Fail(const absl::AlphaNum& expected, const absl::AlphaNum& got) {
    status_ = FieldError(Field(), expected, got);
    return false;
  }
  bool FailWith(absl::string_view message) {
    status_ = Named(message);
    return false;
  }
  absl::Status Named(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(Field(), ": ", message));
  }
  bool BadKey(absl::string_view got) {
    path_.resize(branches_.back().path_bytes);
    return Fail("text or a number as key", got);
  }

  // True if a leaf is valid at this position.
  bool CheckLeaf(absl::string_view got) {
    if (branches_.empty()) return Fail("a map", got);
    return !in_key_ || BadKey(got);
  }

  bool AddText(std::string text) {
    if (!CheckLeaf(text)) return false;
    tree_.leaves.push_back({.name = path_, .is_array = false, .array = {}, .text = std::move(text), .usable = usable_});
    return true;
  }

  // A leaf that no layer can use.
  bool AddUnusable(const absl::AlphaNum& expected, const absl::AlphaNum& got) {
    MsgpackArray array;
    array.pieces.emplace_back();
    array.usable = FieldError(Field(), expected, got);
    AddArray(std::move(array));
    return true;
  }

  void AddArray(MsgpackArray array) {
    array.usable.Update(usable_);
    tree_.leaves.push_back({.name = path_, .is_array = true, .array = std::move(array), .text = "", .usable = usable_});
  }

  bool SetKey(absl::string_view key) {
    path_.resize(branches_.back().path_bytes);
    usable_ = branches_.back().usable;
    if (key.empty() || !CheckTensorName("", key).ok()) {
      usable_.Update(FieldError(Field(), "a key in UTF-8 that is not empty and has no control character", Quoted(key)));
    }
    const std::string name = key.empty() ? "\"\"" : PrintableName(key);
    if (path_.size() + 1 + name.size() > kMaxPathBytes) {
      return Fail(absl::StrCat("a name of at most ", kMaxPathBytes, " bytes"), absl::StrCat("key ", Quoted(key)));
    }
    absl::StrAppend(&path_, path_.empty() ? "" : "/", name);
    if (paths_.size() == kMaxPaths) return Fail(absl::StrCat("at most ", kMaxPaths, " keys"), "more");
    if (!paths_.insert(path_).second) return FailWith("duplicate key");
    if (key == kChunkedArray) branches_.back().is_chunked = true;
    return true;
  }

  bool StartBranch() {
    if (branches_.size() == kMaxDepth) return Fail(absl::StrCat("at most ", kMaxDepth, " levels"), "more");
    branches_.push_back({.path_bytes = path_.size(), .first_leaf = tree_.leaves.size(), .usable = usable_});
    return true;
  }

  bool FinishChunkedArray(const Branch& branch) {
    path_.resize(branch.path_bytes);
    if (path_.empty()) return Fail("a map of names", "an array in chunks");
    std::vector<MsgpackLeaf>& leaves = tree_.leaves;
    absl::StatusOr<MsgpackArray> array =
        JoinMsgpackChunks(path_, absl::MakeConstSpan(leaves).subspan(branch.first_leaf));
    if (!array.ok()) {
      status_ = array.status();
      return false;
    }
    leaves.resize(branch.first_leaf);
    usable_ = branch.usable;
    AddArray(*std::move(array));
    return true;
  }

  std::vector<Branch> branches_;
  bool in_key_ = false;
  std::string path_;                        // of the current key or value
  absl::Status usable_;                     // whether a layer can have this path
  absl::flat_hash_set<std::string> paths_;  // of all leaves and branches so far
  MsgpackTree tree_;
  absl::Status status_;
};

// Reads a tree up to its end or the end of `bytes`, whichever is first.
absl::StatusOr<MsgpackTree> ReadTree(absl::Span<const std::byte> bytes) {
  TreeReader reader;
  size_t end = 0;
  msgpack::parse(reinterpret_cast<const char*>(bytes.data()), bytes.size(), end, reader);
  if (!reader.status().ok()) return reader.status();
  MsgpackTree tree = reader.TakeTree();
  if (!tree.is_whole || end == bytes.size()) return tree;
  return FieldError("msgpack", absl::StrCat("the end of the file after the map, at byte ", end),
                    absl::StrCat(bytes.size(), " bytes"));
}

// The bytes of an array in one piece. Several pieces are joined in the storage of the map.
absl::Span<const std::byte> JoinedBytes(const MsgpackArray& array, TensorMap& map) {
  if (array.pieces.size() == 1) return array.pieces[0];
  std::vector<std::byte> joined;
  joined.reserve(*ByteCount(array.shape, array.dtype));
  for (const absl::Span<const std::byte> piece : array.pieces) {
    joined.insert(joined.end(), piece.begin(), piece.end());
  }
  return map.storage.emplace_back(std::move(joined));
}

absl::Status Truncated(const MsgpackTree& tree) {
  const std::string last =
      tree.leaves.empty() ? "no leaf" : absl::StrCat("\"", EscapeForMessage(tree.leaves.back().name), "\"");
  return absl::InvalidArgumentError(absl::StrCat("msgpack: the file ends within its map, after ", last));
}

}  // namespace

absl::StatusOr<TensorMap> ParseMsgpack(absl::Span<const std::byte> file) {
  absl::StatusOr<MsgpackTree> tree = ReadTree(file);
  if (!tree.ok()) return tree.status();
  if (!tree->is_whole) return Truncated(*tree);
  TensorMap map;
  for (MsgpackLeaf& leaf : tree->leaves) {
    if (!leaf.is_array) {
      if (leaf.usable.ok()) map.metadata.emplace(std::move(leaf.name), std::move(leaf.text));
      continue;
    }
    if (!leaf.array.usable.ok()) {
      map.tensors.push_back({.name = std::move(leaf.name),
                             .dtype = leaf.array.dtype,
                             .shape = std::move(leaf.array.shape),
                             .usable = std::move(leaf.array.usable)});
      continue;
    }
    const absl::Span<const std::byte> data = JoinedBytes(leaf.array, map);
    NamedTensor tensor{
        .name = std::move(leaf.name), .dtype = leaf.array.dtype, .shape = std::move(leaf.array.shape), .data = data};
    if (tensor.shape.empty()) {
      map.metadata.emplace(tensor.name, NumberText(tensor));
    } else {
      map.tensors.push_back(std::move(tensor));
    }
  }
  if (absl::Status status = SortByName(map.tensors); !status.ok()) return status;
  return map;
}

absl::StatusOr<TensorMap> DescribeMsgpack(const ByteSource& file, uint64_t max_bytes) {
  if (file.size() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("msgpack: expected a file of at most ", max_bytes,
                                                     " bytes, because it is read as a whole, got ", file.size(),
                                                     "; see --max-weight-bytes, or convert it to safetensors"));
  }
  const auto bytes = ReadRange(file, 0, file.size());
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<TensorMap> map = ParseMsgpack(*bytes);
  if (!map.ok()) return map;
  const std::byte* const begin = bytes->data();
  const std::byte* const end = begin + bytes->size();
  for (NamedTensor& tensor : map->tensors) {
    if (!tensor.usable.ok()) continue;
    const std::byte* const data = tensor.data.data();
    // Chunked arrays are in the storage of the map.
    if (std::less<>()(data, begin) || !std::less<>()(data, end)) continue;
    tensor.position = static_cast<uint64_t>(data - begin);
    tensor.data = {};
  }
  map->reader = MakeRangeReader(file);
  return map;
}

absl::Status CheckMsgpackStart(absl::Span<const std::byte> start) { return ReadTree(start).status(); }

}  // namespace attention::server
