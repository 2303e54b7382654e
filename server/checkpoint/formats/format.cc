#include "server/checkpoint/formats/format.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/msgpack.h"
#include "server/checkpoint/formats/npz.h"
#include "server/checkpoint/formats/safetensors.h"

namespace attention::server {
namespace {

constexpr absl::string_view kZipEntry("PK\x03\x04", 4), kEmptyZip("PK\x05\x06", 4);
constexpr size_t kLengthBytes = 8;  // of the header length of safetensors
constexpr absl::string_view kHdf5("\x89HDF\r\n\x1A\n", 8), kNpy("\x93NUMPY", 6);

// The opcode PROTO and the protocol number, which is at least 2 in files of PyTorch.
bool IsPickle(absl::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

bool StartsWithMsgpackMap(absl::string_view start) {
  const auto first = static_cast<unsigned char>(start.empty() ? 0 : start[0]);
  return (first >= 0x80 && first <= 0x8F) || first == 0xDE || first == 0xDF;
}

// A header length, whose four high bytes are zero below 100 MB, and the start of a JSON object of tensors. Every byte
// of the length can have any value, so a valid file can start like a pickle, a zip file or a MessagePack map, but none
// of these continues like this.
bool StartsWithSafetensorsHeader(absl::string_view start) {
  constexpr absl::string_view kHighBytes("\0\0\0\0", 4), kBlanks = " \t\r\n";
  if (start.size() <= kLengthBytes || start[kLengthBytes] != '{') return false;
  if (start.substr(4, 4) != kHighBytes) return false;
  const size_t next = start.find_first_not_of(kBlanks, kLengthBytes + 1);
  return next == absl::string_view::npos || start[next] == '"' || start[next] == '}';
}

bool IsOther(absl::string_view start) {
  return IsPickle(start) || StartsWithMsgpackMap(start) || absl::StartsWith(start, kZipEntry);
}

// A brace after a length that no file has is a damaged header, unless the bytes are those of another format: a
// MessagePack map such as {"layers": 123} has a brace there.
bool IsSafetensors(absl::string_view start) {
  if (StartsWithSafetensorsHeader(start)) return true;
  return start.size() > kLengthBytes && start[kLengthBytes] == '{' && !IsOther(start);
}

bool IsMsgpack(absl::string_view start) {
  return StartsWithMsgpackMap(start) && !IsPickle(start) && !StartsWithSafetensorsHeader(start);
}

// The name of the first entry of a zip file, as far as `start` contains it.
absl::string_view FirstEntry(absl::string_view start) {
  constexpr size_t kNameLengthAt = 26, kNameAt = 30;
  if (start.size() < kNameAt) return "";
  const size_t length = static_cast<unsigned char>(start[kNameLengthAt]) |
                        static_cast<size_t>(static_cast<unsigned char>(start[kNameLengthAt + 1])) << 8;
  return start.substr(kNameAt, length);
}

bool IsNpz(absl::string_view start) {
  if (StartsWithSafetensorsHeader(start)) return false;
  if (absl::StartsWith(start, kEmptyZip)) return true;
  const absl::string_view entry = FirstEntry(start);
  return absl::StartsWith(start, kZipEntry) && (absl::EndsWith(entry, ".npy") || absl::EndsWith(entry, "/"));
}

absl::StatusOr<uint64_t> WholeFile(absl::Span<const std::byte>, uint64_t file_size) { return file_size; }

const CheckpointFormat kFormats[] = {
    {.name = "safetensors",
     .signature = "a header length and '{'",
     .recognises = IsSafetensors,
     .header_end = SafetensorsHeaderEnd,
     .check_start = nullptr,
     .describe = [](const ByteSource& file, uint64_t) { return DescribeSafetensors(file); }},
    {.name = "msgpack",
     .signature = "a MessagePack map",
     .recognises = IsMsgpack,
     .header_end = WholeFile,
     .check_start = CheckMsgpackStart,
     .describe = DescribeMsgpack},
    {.name = "npz",
     .signature = "a zip file of .npy files",
     .recognises = IsNpz,
     .header_end = WholeFile,
     .check_start = nullptr,
     .describe = [](const ByteSource& file, uint64_t) { return DescribeNpz(file); }},
};

// An error that says more than "not recognised" about a common file that is not read.
absl::Status CheckKnownOthers(absl::string_view start) {
  if (StartsWithSafetensorsHeader(start)) return absl::OkStatus();
  const absl::string_view entry = absl::StartsWith(start, kZipEntry) ? FirstEntry(start) : "";
  if (IsPickle(start) || IsPickleEntry(entry)) return PickleError();
  if (absl::StartsWith(start, kHdf5)) {
    return absl::UnimplementedError(
        "file: HDF5 (Keras, .h5) is not supported; save the arrays as safetensors, or as npz with numpy.savez");
  }
  if (absl::StartsWith(start, kNpy)) {
    return absl::InvalidArgumentError(
        "file: npy contains a single array without a name; save all arrays as npz with numpy.savez");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const CheckpointFormat> CheckpointFormats() { return kFormats; }

const CheckpointFormat* FindCheckpointFormat(absl::string_view name) {
  const auto format = absl::c_find_if(kFormats, [name](const CheckpointFormat& f) { return f.name == name; });
  return format == std::end(kFormats) ? nullptr : &*format;
}

std::string CheckpointExtensions() {
  std::vector<std::string> extensions;
  for (const CheckpointFormat& format : kFormats) extensions.push_back(absl::StrCat(".", format.name));
  const std::string last = std::move(extensions.back());
  extensions.pop_back();
  return absl::StrCat(absl::StrJoin(extensions, ", "), " or ", last);
}

absl::StatusOr<const CheckpointFormat*> RecogniseFormat(absl::Span<const std::byte> start, uint64_t file_size) {
  if (file_size == 0) return absl::InvalidArgumentError("file: empty");
  const absl::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (absl::Status status = CheckKnownOthers(text); !status.ok()) return status;
  for (const CheckpointFormat& format : kFormats) {
    if (format.recognises(text)) return &format;
  }
  if (absl::StartsWith(text, kZipEntry)) {
    return FieldError("file", "an npz file, whose entries end in .npy",
                      absl::StrCat("a zip file with the entry \"", EscapeForMessage(FirstEntry(text)), "\""));
  }
  const std::string formats = absl::StrJoin(kFormats, " or ", [](std::string* out, const CheckpointFormat& format) {
    absl::StrAppend(out, format.name, " (", format.signature, ")");
  });
  return FieldError("file", formats, absl::StrCat("\"", EscapeForMessage(text.substr(0, 16)), "\" as the first bytes"));
}

absl::StatusOr<const CheckpointFormat*> RecogniseFormat(const ByteSource& file) {
  const auto start = ReadRange(file, 0, std::min<uint64_t>(kFormatBytes, file.size()));
  if (!start.ok()) return start.status();
  return RecogniseFormat(*start, file.size());
}

}  // namespace attention::server
