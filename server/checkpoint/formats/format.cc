#include "server/checkpoint/formats/format.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/msgpack.h"
#include "server/checkpoint/formats/npz.h"
#include "server/checkpoint/formats/safetensors.h"

namespace attention::server {
namespace {

constexpr absl::string_view kZipEntry("PK\x03\x04", 4), kEmptyZip("PK\x05\x06", 4);
constexpr absl::string_view kHdf5("\x89HDF\r\n\x1A\n", 8), kNpy("\x93NUMPY", 6);
constexpr size_t kHeaderLengthBytes = 8;

// Its first byte is PROTO, the second the protocol, which has a number from 2: no pickle of PyTorch is older.
bool IsPickle(absl::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

bool IsMsgpackMap(absl::string_view start) {
  const auto first = static_cast<unsigned char>(start.empty() ? 0 : start[0]);
  return (first >= 0x80 && first <= 0x8F) || first == 0xDE || first == 0xDF;
}

// A header length and the brace behind it. A map can look like that ({"layers": 123} does), but then the length is
// absurd, since text stands where its high bytes are.
bool IsSafetensors(absl::string_view start) {
  if (start.size() <= kHeaderLengthBytes || start[kHeaderLengthBytes] != '{') return false;
  const bool is_absurd = start.substr(4, 4) != absl::string_view("\0\0\0\0", 4);
  return !(is_absurd && IsMsgpackMap(start));
}

// The name of the zip's first entry, as far as `start` holds it.
absl::string_view FirstEntry(absl::string_view start) {
  constexpr size_t kNameLengthAt = 26, kNameAt = 30;
  if (start.size() < kNameAt) return "";
  const size_t length = static_cast<unsigned char>(start[kNameLengthAt]) |
                        static_cast<size_t>(static_cast<unsigned char>(start[kNameLengthAt + 1])) << 8;
  return start.substr(kNameAt, length);
}

absl::StatusOr<CheckpointFormat> RecogniseZip(absl::string_view start) {
  const absl::string_view entry = FirstEntry(start);
  if (IsPickleEntry(entry)) return PickleError();
  if (absl::EndsWith(entry, ".npy") || absl::EndsWith(entry, "/")) return CheckpointFormat::kNpz;
  return absl::InvalidArgumentError(absl::StrCat("a zip file, but no npz: its first entry is \"",
                                                 EscapeForMessage(entry), "\", wanted names that end in .npy"));
}

}  // namespace

absl::string_view FormatName(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::kSafetensors:
      return "safetensors";
    case CheckpointFormat::kMsgpack:
      return "msgpack";
    case CheckpointFormat::kNpz:
      return "npz";
  }
  return "";
}

absl::StatusOr<CheckpointFormat> RecogniseFormat(absl::Span<const std::byte> start, uint64_t file_size) {
  const absl::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (file_size == 0) return absl::InvalidArgumentError("the file is empty");
  if (absl::StartsWith(text, kZipEntry)) return RecogniseZip(text);
  if (absl::StartsWith(text, kEmptyZip)) return CheckpointFormat::kNpz;
  if (IsPickle(text)) return PickleError();
  if (absl::StartsWith(text, kHdf5)) {
    return absl::UnimplementedError(
        "HDF5 (of Keras: .h5) is not read; save the arrays as safetensors, or as npz with numpy.savez");
  }
  if (absl::StartsWith(text, kNpy)) {
    return absl::InvalidArgumentError("npy: one array without a name; save all arrays as npz with numpy.savez");
  }
  if (IsSafetensors(text)) return CheckpointFormat::kSafetensors;
  if (IsMsgpackMap(text)) return CheckpointFormat::kMsgpack;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted safetensors (a header length and '{'), MessagePack (a map) or npz (a zip file), found \"",
                   EscapeForMessage(text.substr(0, 16)), "\" as the first bytes"));
}

absl::StatusOr<bool> HeaderIsThere(CheckpointFormat format, absl::Span<const std::byte> start, uint64_t file_size) {
  if (format == CheckpointFormat::kSafetensors) return SafetensorsHeaderIsThere(start, file_size);
  if (start.size() >= file_size) return true;
  if (format == CheckpointFormat::kMsgpack) {
    if (absl::Status status = CheckMsgpackStart(start); !status.ok()) return status;
  }
  return false;
}

absl::StatusOr<TensorMap> ParseCheckpoint(CheckpointFormat format, absl::Span<const std::byte> file,
                                          uint64_t max_npz_bytes) {
  switch (format) {
    case CheckpointFormat::kSafetensors:
      return ParseSafetensors(file);
    case CheckpointFormat::kMsgpack:
      return ParseMsgpack(file);
    case CheckpointFormat::kNpz:
      return ParseNpz(file, max_npz_bytes);
  }
  return absl::InternalError("unknown checkpoint format");
}

absl::Status PickleError() {
  return absl::UnimplementedError(
      "a pickle (of PyTorch: .pt, .pth, .bin) can run any program, so it is not read; in Python, save "
      "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") instead");
}

}  // namespace attention::server
