#include "server/checkpoint/formats/npz.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/npy.h"
#include "server/checkpoint/formats/zip_archive.h"

namespace attention::server {
namespace {

constexpr uint64_t kMaxEntries = 100'000;

// Deflate expands two bits to at most 258 bytes.
constexpr uint64_t kMaxInflation = 1032;

// numpy writes less than 200 bytes for an array of numbers.
constexpr uint64_t kUsualHeaderBytes = 4096, kMaxHeaderBytes = 64 << 10;

struct Entry {
  uint64_t index = 0;
  std::string name;  // of the array, without ".npy"
  uint64_t size = 0;
  NpyHeader header;

  std::string field() const { return EscapeForMessage(name); }
};

absl::Status CheckSizes(const std::string& name, const zip_stat_t& info) {
  const std::string field = EscapeForMessage(name);
  constexpr zip_uint64_t kRequired =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((info.valid & kRequired) != kRequired) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": the zip file does not state sizes and method"));
  }
  if (info.encryption_method != ZIP_EM_NONE) return absl::InvalidArgumentError(absl::StrCat(field, ": encrypted"));
  if (info.comp_method == ZIP_CM_STORE) {
    if (info.size == info.comp_size) return absl::OkStatus();
    return FieldError(field, absl::StrCat(info.size, " stored bytes"), info.comp_size);
  }
  if (info.comp_method != ZIP_CM_DEFLATE) {
    return FieldError(absl::StrCat(field, ": compression method"), "0 (none) or 8 (deflate)", info.comp_method);
  }
  if (info.size / kMaxInflation <= info.comp_size) return absl::OkStatus();
  const uint64_t most = info.comp_size * kMaxInflation;
  return FieldError(field, absl::StrCat("at most ", most, " bytes from ", info.comp_size, " deflated ones"), info.size);
}

absl::Status CheckEntryName(absl::string_view entry) {
  absl::string_view name = entry;
  if (absl::ConsumeSuffix(&name, ".npy") && !name.empty()) return CheckTensorName("npz: entry", name);
  return FieldError("npz: entry", "a name that ends in .npy", absl::StrCat("\"", EscapeForMessage(entry), "\""));
}

Entry MakeEntry(uint64_t index, const zip_stat_t& info) {
  Entry entry{.index = index, .name = PrintableName(info.name), .size = info.size, .header = {}};
  entry.header.usable = CheckEntryName(info.name);
  if (entry.header.usable.ok()) entry.name = std::string(absl::StripSuffix(info.name, ".npy"));
  return entry;
}

bool HasPickle(zip_t* archive, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive, i, 0);
    if (name != nullptr && IsPickleEntry(name)) return true;
  }
  return false;
}

// Reads the directory and checks all of it before any entry is read.
absl::StatusOr<std::vector<Entry>> ListEntries(const ZipArchive& zip, uint64_t file_size) {
  zip_t* const archive = zip.get();
  std::vector<Entry> entries;
  absl::flat_hash_set<std::string> names;
  uint64_t left = file_size;
  const auto count = static_cast<uint64_t>(zip_get_num_entries(archive, 0));
  if (count > kMaxEntries) return FieldError("npz", absl::StrCat("at most ", kMaxEntries, " entries"), count);
  if (HasPickle(archive, count)) return PickleError();
  for (uint64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive, i, 0, &info) != 0) return zip.Error("npz");
    if ((info.valid & ZIP_STAT_NAME) == 0) return absl::InvalidArgumentError("npz: an entry has no name");
    // A folder: zip programs write them, numpy does not.
    if (absl::EndsWith(info.name, "/")) continue;
    Entry entry = MakeEntry(i, info);
    if (!names.insert(entry.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(entry.field(), ": duplicate array name"));
    }
    if (absl::Status status = CheckSizes(entry.name, info); !status.ok()) return status;
    if (info.comp_size > left) {
      return absl::InvalidArgumentError(absl::StrCat(entry.field(), ": overlaps with other entries: its ",
                                                     info.comp_size, " bytes exceed the ", left, " bytes left"));
    }
    left -= info.comp_size;
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Why libzip refused the archive. If the directory shows which entry is wrong, the error names that entry: libzip's
// error does not, and its versions check different things.
absl::Status WithEntry(const absl::Status& refusal, const ByteSource& file) {
  const auto archive = ZipArchive::Open(file, 0);
  if (!archive.ok()) return refusal;
  const absl::StatusOr<std::vector<Entry>> entries = ListEntries(**archive, file.size());
  return entries.ok() ? refusal : entries.status();
}

absl::Status InArray(const Entry& entry, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(entry.field(), ": ", status.message()));
}

absl::StatusOr<std::vector<std::byte>> ReadStart(const ZipArchive& archive, const Entry& entry, uint64_t size) {
  auto reader = archive.OpenEntry(entry.index, entry.field());
  if (!reader.ok()) return reader.status();
  std::vector<std::byte> bytes(size);
  if (absl::Status status = reader->Read(absl::MakeSpan(bytes)); !status.ok()) return status;
  return bytes;
}

absl::Status ReadHeader(const ZipArchive& archive, Entry& entry) {
  if (!entry.header.usable.ok()) return absl::OkStatus();
  auto start = ReadStart(archive, entry, std::min(entry.size, kUsualHeaderBytes));
  if (!start.ok()) return start.status();
  const absl::StatusOr<uint64_t> end = NpyHeaderEnd(*start, entry.size);
  if (!end.ok()) return InArray(entry, end.status());
  if (*end > kMaxHeaderBytes) {
    return InArray(entry, FieldError("npy: header", absl::StrCat("at most ", kMaxHeaderBytes, " bytes"), *end));
  }
  if (*end > start->size()) {
    start = ReadStart(archive, entry, *end);
    if (!start.ok()) return start.status();
  }
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(*start, entry.size);
  if (!header.ok()) return InArray(entry, header.status());
  entry.header = *std::move(header);
  if (!entry.header.usable.ok()) entry.header.usable = InArray(entry, entry.header.usable);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> ReadData(const ZipArchive& archive, const Entry& entry) {
  auto reader = archive.OpenEntry(entry.index, entry.field());
  if (!reader.ok()) return reader.status();
  std::vector<std::byte> header(entry.header.data_at), data(entry.size - entry.header.data_at);
  for (const absl::Span<std::byte> bytes : {absl::MakeSpan(header), absl::MakeSpan(data)}) {
    if (absl::Status status = reader->Read(bytes); !status.ok()) return status;
  }
  if (absl::Status status = reader->Finish(); !status.ok()) return status;
  return InRowMajor(std::move(data), entry.header);
}

class ArrayReader : public TensorReader {
 public:
  ArrayReader(std::unique_ptr<ZipArchive> archive, std::vector<Entry> entries)
      : archive_(std::move(archive)), entries_(std::move(entries)) {}

  // The position of a tensor is the index of its entry.
  absl::StatusOr<std::vector<std::byte>> Read(const NamedTensor& tensor) const override {
    return ReadData(*archive_, entries_[tensor.position]);
  }

 private:
  const std::unique_ptr<ZipArchive> archive_;
  const std::vector<Entry> entries_;
};

absl::Status AddNumber(const ZipArchive& archive, const Entry& entry, TensorMap& map) {
  const auto data = ReadData(archive, entry);
  if (!data.ok()) return data.status();
  map.metadata.emplace(entry.name, NumberText({.dtype = entry.header.dtype, .data = *data}));
  return absl::OkStatus();
}

}  // namespace

bool IsPickleEntry(absl::string_view name) { return name == "data.pkl" || absl::EndsWith(name, "/data.pkl"); }

absl::Status PickleError() {
  return absl::UnimplementedError(
      "file: pickle (PyTorch, .pt, .pth, .bin) is not supported, because reading it can run any program; save "
      "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") instead");
}

absl::StatusOr<TensorMap> DescribeNpz(const ByteSource& file) {
  // libzip reads an empty file as an archive without entries.
  if (file.size() == 0) return absl::InvalidArgumentError("npz: the file is empty");
  auto archive = ZipArchive::Open(file, ZIP_CHECKCONS);
  if (!archive.ok()) return WithEntry(archive.status(), file);
  absl::StatusOr<std::vector<Entry>> entries = ListEntries(**archive, file.size());
  if (!entries.ok()) return entries.status();
  TensorMap map;
  for (size_t i = 0; i < entries->size(); ++i) {
    Entry& entry = (*entries)[i];
    if (absl::Status status = ReadHeader(**archive, entry); !status.ok()) return status;
    if (entry.header.usable.ok() && entry.header.shape.empty()) {
      if (absl::Status status = AddNumber(**archive, entry, map); !status.ok()) return status;
    } else {
      map.tensors.push_back({.name = entry.name,
                             .dtype = entry.header.dtype,
                             .shape = entry.header.shape,
                             .position = i,
                             .usable = entry.header.usable});
    }
  }
  if (absl::Status status = SortByName(map.tensors); !status.ok()) return status;
  map.reader = std::make_unique<ArrayReader>(*std::move(archive), *std::move(entries));
  return map;
}

}  // namespace attention::server
