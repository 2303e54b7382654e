#include "server/checkpoint/formats/msgpack.h"

#include <cstdint>
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
  return NumberText({"", DType::kFloat32, {}, {reinterpret_cast<const std::byte*>(&value), sizeof(value)}});
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
  bool visit_bin(const char*, uint32_t) { return CheckLeaf("bytes") && Fail("an array or a number", "bytes"); }

  bool visit_positive_integer(uint64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }
  bool visit_negative_integer(int64_t value) {
    return in_key_ ? SetKey(absl::StrCat(value)) : AddText(absl::StrCat(value));
  }

  bool visit_str(const char* data, uint32_t size) {
    const absl::string_view text(data, size);
    if (in_key_) return SetKey(text);
    return CheckLeaf("text") && (IsUtf8(text) || Fail("text in UTF-8", Quoted(text))) && AddText(std::string(text));
  }

  bool visit_ext(const char* data, uint32_t size) {
    if (!CheckLeaf("an extension")) return false;
    // `size` includes the type byte; for the largest extension the sum wraps to 0.
    if (size == 0) return Fail("an array in chunks", "an extension of 4 GiB");
    const int type = static_cast<int8_t>(data[0]);
    if (type != kNdarray && type != kNumpyScalar) {
      return Fail("extension type 1 (an array) or 3 (a numpy scalar)", type);
    }
    absl::StatusOr<MsgpackArray> array = ParseMsgpackArray({reinterpret_cast<const std::byte*>(data) + 1, size - 1});
    if (!array.ok()) return FailWith(array.status().message());
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
  };

  std::string Field() const { return path_.empty() ? "msgpack" : EscapeForMessage(path_); }

  // These return false, which stops the parser.
  bool Fail(const absl::AlphaNum& expected, const absl::AlphaNum& got) {
    status_ = FieldError(Field(), expected, got);
    return false;
  }
  bool FailWith(absl::string_view message) {
    status_ = absl::InvalidArgumentError(absl::StrCat(Field(), ": ", message));
    return false;
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
    tree_.leaves.push_back({.name = path_, .is_array = false, .array = {}, .text = std::move(text)});
    return true;
  }

  void AddArray(MsgpackArray array) {
    tree_.leaves.push_back({.name = path_, .is_array = true, .array = std::move(array), .text = ""});
  }

  bool SetKey(absl::string_view key) {
    path_.resize(branches_.back().path_bytes);
    if (key.empty() || HasControlCharacter(key) || !IsUtf8(key)) {
      return Fail("a key in UTF-8 that is not empty and has no control character", Quoted(key));
    }
    if (path_.size() + 1 + key.size() > kMaxPathBytes) {
      return Fail(absl::StrCat("a name of at most ", kMaxPathBytes, " bytes"), absl::StrCat("key ", Quoted(key)));
    }
    absl::StrAppend(&path_, path_.empty() ? "" : "/", key);
    if (paths_.size() == kMaxPaths) return Fail(absl::StrCat("at most ", kMaxPaths, " keys"), "more");
    if (!paths_.insert(path_).second) return FailWith("duplicate key");
    if (key == kChunkedArray) branches_.back().is_chunked = true;
    return true;
  }

  bool StartBranch() {
    if (branches_.size() == kMaxDepth) return Fail(absl::StrCat("at most ", kMaxDepth, " levels"), "more");
    branches_.push_back({.path_bytes = path_.size(), .first_leaf = tree_.leaves.size()});
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
    AddArray(*std::move(array));
    return true;
  }

  std::vector<Branch> branches_;
  bool in_key_ = false;
  std::string path_;                        // of the current key or value
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
      map.metadata.emplace(std::move(leaf.name), std::move(leaf.text));
      continue;
    }
    const absl::Span<const std::byte> data = JoinedBytes(leaf.array, map);
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

absl::Status CheckMsgpackStart(absl::Span<const std::byte> start) { return ReadTree(start).status(); }

}  // namespace attention::server
