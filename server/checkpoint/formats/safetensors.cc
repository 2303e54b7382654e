#include "server/checkpoint/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// The header length in `start`. REQUIRES: `start` has at least kLengthBytes bytes.
absl::StatusOr<uint64_t> HeaderLength(absl::Span<const std::byte> start, uint64_t file_size) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(start[i]) << (8 * i);
  const uint64_t longest = std::min<uint64_t>(kMaxHeaderBytes, file_size - kLengthBytes);
  if (length >= 2 && length <= longest) return length;
  return FieldError("header length", absl::StrCat("2 to ", longest), length);
}

absl::Status NoLength(uint64_t file_size) {
  return FieldError("header length", absl::StrCat(kLengthBytes, " bytes"), file_size);
}

absl::Status CheckBytes(const SafetensorsEntry& entry, uint64_t data_bytes) {
  const std::string field = absl::StrCat(EscapeForMessage(entry.name), ": data_offsets");
  const std::string offsets = absl::StrCat("[", entry.begin, ", ", entry.end, "]");
  if (entry.begin > entry.end) return FieldError(field, "a begin that is not after the end", offsets);
  if (entry.end > data_bytes) {
    return FieldError(field, absl::StrCat("offsets within the ", data_bytes, " bytes of data"), offsets);
  }
  if (!entry.usable.ok()) return absl::OkStatus();
  return CheckByteCount(field, entry.dtype, entry.shape, entry.end - entry.begin);
}

// In the order of their offsets, the tensors must cover the data without gaps or overlaps.
absl::Status CheckCoverage(absl::Span<const SafetensorsEntry> entries, uint64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const SafetensorsEntry& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const auto* a, const auto* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
  uint64_t covered = 0;
  for (const SafetensorsEntry* entry : by_offset) {
    if (entry->begin != covered) {
      return FieldError(absl::StrCat(EscapeForMessage(entry->name), ": data_offsets"),
                        absl::StrCat("begin ", covered, ", the end of the tensor before it"), entry->begin);
    }
    covered = entry->end;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return FieldError("data", absl::StrCat(covered, " bytes as in data_offsets"), data_bytes);
}

absl::StatusOr<std::string> JsonString(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return FieldError("header", "text in UTF-8", absl::StrCat("\"", EscapeForMessage(text), "\""));
  }
}

absl::Status AppendMetadata(const std::map<std::string, std::string>& metadata, std::string& header) {
  if (metadata.empty()) return absl::OkStatus();
  absl::string_view separator = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    const absl::StatusOr<std::string> json_key = JsonString(key), json_value = JsonString(value);
    if (!json_key.ok()) return json_key.status();
    if (!json_value.ok()) return json_value.status();
    absl::StrAppend(&header, separator, *json_key, ":", *json_value);
    separator = ",";
  }
  header += "}";
  return absl::OkStatus();
}

// The header with its padding. The data of the tensors must follow in the same order.
absl::StatusOr<std::string> MakeHeader(absl::Span<const NamedTensor* const> tensors,
                                       const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (absl::Status status = AppendMetadata(metadata, header); !status.ok()) return status;
  size_t offset = 0;
  for (const NamedTensor* tensor : tensors) {
    const absl::StatusOr<std::string> name = JsonString(tensor->name);
    if (!name.ok()) return name.status();
    const size_t end = offset + tensor->data.size();
    absl::StrAppend(&header, header.size() > 1 ? "," : "", *name, ":{\"dtype\":\"", SafetensorsDTypeName(tensor->dtype),
                    "\",\"shape\":[", absl::StrJoin(tensor->shape, ","), "],\"data_offsets\":[", offset, ",", end,
                    "]}");
    offset = end;
  }
  header += "}";
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  return header;
}

}  // namespace

absl::StatusOr<TensorMap> ParseSafetensors(absl::Span<const std::byte> file) {
  absl::StatusOr<TensorMap> map = DescribeSafetensors(MemorySource(file));
  if (!map.ok()) return map;
  map->reader.reset();
  for (NamedTensor& tensor : map->tensors) {
    if (tensor.usable.ok()) tensor.data = file.subspan(tensor.position, *ByteCount(tensor.shape, tensor.dtype));
  }
  return map;
}

absl::StatusOr<TensorMap> DescribeSafetensors(const ByteSource& file) {
  const auto start = ReadRange(file, 0, std::min<uint64_t>(file.size(), kLengthBytes + 1));
  if (!start.ok()) return start.status();
  const absl::StatusOr<uint64_t> end = SafetensorsHeaderEnd(*start, file.size());
  if (!end.ok()) return end.status();
  const auto text = ReadRange(file, kLengthBytes, *end - kLengthBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader({reinterpret_cast<const char*>(text->data()), text->size()});
  if (!header.ok()) return header.status();
  const uint64_t data_bytes = file.size() - *end;
  for (const SafetensorsEntry& entry : header->entries) {
    if (absl::Status status = CheckBytes(entry, data_bytes); !status.ok()) return status;
  }
  if (absl::Status status = CheckCoverage(header->entries, data_bytes); !status.ok()) return status;

  TensorMap map;
  map.metadata = std::move(header->metadata);
  map.tensors.reserve(header->entries.size());
  for (SafetensorsEntry& entry : header->entries) {
    map.tensors.push_back({.name = PrintableName(entry.name),
                           .dtype = entry.dtype,
                           .shape = std::move(entry.shape),
                           .position = *end + entry.begin,
                           .usable = std::move(entry.usable)});
  }
  if (absl::Status status = SortByName(map.tensors); !status.ok()) return status;
  map.reader = MakeRangeReader(file);
  return map;
}

absl::StatusOr<uint64_t> SafetensorsHeaderEnd(absl::Span<const std::byte> start, uint64_t file_size) {
  if (file_size < kLengthBytes) return NoLength(file_size);
  const absl::StatusOr<uint64_t> length = HeaderLength(start, file_size);
  if (!length.ok()) return length.status();
  if (start[kLengthBytes] != std::byte{'{'}) {
    return ParseSafetensorsHeader({reinterpret_cast<const char*>(start.data()) + kLengthBytes, 1}).status();
  }
  return kLengthBytes + *length;
}

absl::StatusOr<std::vector<std::byte>> SerializeSafetensors(absl::Span<const NamedTensor> tensors,
                                                            const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> order;
  size_t data_bytes = 0;
  for (const NamedTensor& tensor : tensors) {
    order.push_back(&tensor);
    data_bytes += tensor.data.size();
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return std::make_tuple(-DTypeSize(a->dtype), a->name) < std::make_tuple(-DTypeSize(b->dtype), b->name);
  });
  const absl::StatusOr<std::string> header = MakeHeader(order, metadata);
  if (!header.ok()) return header.status();

  std::vector<std::byte> file;
  file.reserve(kLengthBytes + header->size() + data_bytes);
  for (size_t i = 0; i < kLengthBytes; ++i) file.push_back(static_cast<std::byte>(header->size() >> (8 * i)));
  const absl::Span<const std::byte> header_bytes(reinterpret_cast<const std::byte*>(header->data()), header->size());
  file.insert(file.end(), header_bytes.begin(), header_bytes.end());
  for (const NamedTensor* tensor : order) file.insert(file.end(), tensor->data.begin(), tensor->data.end());

  // Reading the file back finds duplicate names and shapes that do not match their bytes.
  const auto read_back = ParseSafetensors(file);
  if (!read_back.ok()) return read_back.status();
  for (const NamedTensor& tensor : read_back->tensors) {
    if (!tensor.usable.ok()) return tensor.usable;
  }
  return file;
}

}  // namespace attention::server
