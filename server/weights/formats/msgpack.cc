#include "server/weights/formats/msgpack.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"
#include "server/weights/formats/msgpack_tree.h"
#include "server/weights/formats/text.h"

namespace attention::server {
namespace {

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

absl::StatusOr<TensorMap> ParseMsgpack(absl::Span<const std::byte> file) {
  absl::StatusOr<MsgpackTree> tree = ReadMsgpackTree(file);
  if (!tree.ok()) return tree.status();
  if (!tree->is_whole) {
    return absl::InvalidArgumentError(
        absl::StrCat("msgpack: ends within its map, after ",
                     tree->leaves.empty() ? "no leaf" : absl::StrCat("\"", Echo(tree->leaves.back().name), "\"")));
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
