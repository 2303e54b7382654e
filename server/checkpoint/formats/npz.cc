#include "server/checkpoint/formats/npz.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/npy.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr uint64_t kMaxEntries = 100'000;

// Deflate expands two bits to at most 258 bytes.
constexpr uint64_t kMaxInflation = 1032;

struct Close {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Close>;
using EntryReader = std::unique_ptr<zip_file_t, Close>;

struct Entry {
  uint64_t index = 0;
  std::string name;  // of the array, without ".npy"
  uint64_t size = 0;
};

// libzip's own texts differ between its versions.
absl::string_view Reason(int zip_error) {
  switch (zip_error) {
    case ZIP_ER_NOZIP:
      return "expected a zip archive, got a file without a directory of entries at its end";
    case ZIP_ER_INCONS:
      return "expected headers that agree, got an inconsistent zip archive";
    case ZIP_ER_CRC:
      return "expected data with the stated CRC-32, got another";
    case ZIP_ER_ZLIB:
    case ZIP_ER_COMPRESSED_DATA:
      return "expected deflated data, got damaged data";
    case ZIP_ER_EOF:
      return "expected more data, got the end of the file";
    default:
      return "expected a readable zip archive";
  }
}

absl::Status Damaged(absl::string_view name, zip_error_t* error) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", Reason(zip_error_code_zip(error)),
                                                 " (libzip: ", EscapeForMessage(zip_error_strerror(error)), ")"));
}

absl::StatusOr<Archive> Open(absl::Span<const std::byte> file, int flags) {
  // libzip reads an empty file as an archive without entries.
  if (file.empty()) return absl::InvalidArgumentError("npz: the file is empty");
  zip_error_t error;
  zip_error_init(&error);
  Archive archive;
  zip_source_t* const source = zip_source_buffer_create(file.data(), file.size(), 0, &error);
  if (source != nullptr) {
    archive.reset(zip_open_from_source(source, ZIP_RDONLY | flags, &error));
    if (archive == nullptr) zip_source_free(source);
  }
  const absl::Status status = archive == nullptr ? Damaged("npz", &error) : absl::OkStatus();
  zip_error_fini(&error);
  if (!status.ok()) return status;
  return archive;
}

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

absl::StatusOr<std::string> ArrayName(absl::string_view entry) {
  absl::string_view name = entry;
  if (!absl::ConsumeSuffix(&name, ".npy") || name.empty() || HasControlCharacter(name) || !IsUtf8(name)) {
    return FieldError("npz: entry", "a name in UTF-8 without control characters that ends in .npy",
                      absl::StrCat("\"", EscapeForMessage(entry), "\""));
  }
  return std::string(name);
}

bool HasPickle(zip_t* archive, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive, i, 0);
    if (name != nullptr && IsPickleEntry(name)) return true;
  }
  return false;
}

// Reads the directory and checks all of it before any entry is read.
absl::StatusOr<std::vector<Entry>> ListEntries(zip_t* archive, uint64_t file_size, uint64_t max_bytes) {
  std::vector<Entry> entries;
  absl::flat_hash_set<std::string> names;
  uint64_t left = file_size, bytes = 0;
  const auto count = static_cast<uint64_t>(zip_get_num_entries(archive, 0));
  if (count > kMaxEntries) return FieldError("npz", absl::StrCat("at most ", kMaxEntries, " entries"), count);
  if (HasPickle(archive, count)) return PickleError();
  for (uint64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive, i, 0, &info) != 0) return Damaged("npz", zip_get_error(archive));
    if ((info.valid & ZIP_STAT_NAME) == 0) return absl::InvalidArgumentError("npz: an entry has no name");
    // A folder: zip programs write them, numpy does not.
    if (absl::EndsWith(info.name, "/")) continue;
    absl::StatusOr<std::string> name = ArrayName(info.name);
    if (!name.ok()) return name.status();
    if (!names.insert(*name).second) {
      return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(*name), ": duplicate array name"));
    }
    if (absl::Status status = CheckSizes(*name, info); !status.ok()) return status;
    if (info.comp_size > left) {
      return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(*name), ": overlaps with other entries: its ",
                                                     info.comp_size, " bytes exceed the ", left, " bytes left"));
    }
    left -= info.comp_size;
    bytes = bytes + info.size < bytes ? ~uint64_t{0} : bytes + info.size;
    entries.push_back({i, *std::move(name), info.size});
  }
  if (bytes <= max_bytes) return entries;
  return absl::ResourceExhaustedError(
      absl::StrCat("npz: expected arrays of at most ", max_bytes, " bytes, got ", bytes));
}

// Why libzip refused the archive. If the directory shows which entry is wrong, the error names that entry: libzip's
// error does not, and its versions check different things.
absl::Status WithEntry(const absl::Status& refusal, absl::Span<const std::byte> file, uint64_t max_bytes) {
  const absl::StatusOr<Archive> archive = Open(file, 0);
  if (!archive.ok()) return refusal;
  const absl::StatusOr<std::vector<Entry>> entries = ListEntries(archive->get(), file.size(), max_bytes);
  return entries.ok() ? refusal : entries.status();
}

// All bytes of an entry. Allocates up to `initial_bytes` before any byte is read, then grows with what was read.
absl::StatusOr<std::vector<std::byte>> ReadEntry(zip_t* archive, const Entry& entry, uint64_t initial_bytes) {
  const std::string field = EscapeForMessage(entry.name);
  const EntryReader reader(zip_fopen_index(archive, entry.index, 0));
  if (reader == nullptr) return Damaged(field, zip_get_error(archive));
  std::vector<std::byte> bytes;
  // One byte more than the entry has: libzip compares the checksum when it reaches the end.
  const uint64_t limit = entry.size + 1;
  uint64_t size = 0;
  while (true) {
    if (size == bytes.size()) bytes.resize(std::min(limit, std::max(2 * size, initial_bytes + 1)));
    const zip_int64_t read = zip_fread(reader.get(), bytes.data() + size, bytes.size() - size);
    if (read < 0) return Damaged(field, zip_file_get_error(reader.get()));
    size += static_cast<uint64_t>(read);
    if (read == 0 || size == limit) break;
  }
  if (size == limit) return FieldError(field, absl::StrCat(entry.size, " bytes"), "more");
  if (size != entry.size) return FieldError(field, absl::StrCat(entry.size, " bytes"), size);
  bytes.resize(size);
  return bytes;
}

absl::Status AddArray(const std::string& name, std::vector<std::byte> bytes, TensorMap& map) {
  absl::StatusOr<TensorMap> array = ParseNpy(bytes);
  if (!array.ok()) {
    return absl::Status(array.status().code(), absl::StrCat(EscapeForMessage(name), ": ", array.status().message()));
  }
  NamedTensor& tensor = array->tensors[0];
  if (tensor.shape.empty()) {
    map.metadata.emplace(name, NumberText(tensor));
    return absl::OkStatus();
  }
  tensor.name = name;
  map.tensors.push_back(std::move(tensor));
  // A transposed array has its own storage; the original bytes are no longer needed.
  map.storage.push_back(array->storage.empty() ? std::move(bytes) : std::move(array->storage[0]));
  return absl::OkStatus();
}

}  // namespace

bool IsPickleEntry(absl::string_view name) { return name == "data.pkl" || absl::EndsWith(name, "/data.pkl"); }

absl::Status PickleError() {
  return absl::UnimplementedError(
      "file: pickle (PyTorch, .pt, .pth, .bin) is not supported, because reading it can run any program; save "
      "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") instead");
}

absl::StatusOr<TensorMap> ParseNpz(absl::Span<const std::byte> file, uint64_t max_bytes) {
  const absl::StatusOr<Archive> archive = Open(file, ZIP_CHECKCONS);
  if (!archive.ok()) return WithEntry(archive.status(), file, max_bytes);
  const absl::StatusOr<std::vector<Entry>> entries = ListEntries(archive->get(), file.size(), max_bytes);
  if (!entries.ok()) return entries.status();
  TensorMap map;
  for (const Entry& entry : *entries) {
    absl::StatusOr<std::vector<std::byte>> bytes = ReadEntry(archive->get(), entry, file.size());
    if (!bytes.ok()) return bytes.status();
    if (absl::Status status = AddArray(entry.name, *std::move(bytes), map); !status.ok()) return status;
  }
  if (absl::Status status = SortByName(map.tensors); !status.ok()) return status;
  return map;
}

}  // namespace attention::server
