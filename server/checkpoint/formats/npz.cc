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
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/npy.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {
namespace {

constexpr uint64_t kMaxEntries = 100'000;

// Deflate gives at most 258 bytes for two bits.
constexpr uint64_t kMaxInflation = 1032;

struct Close {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Close>;
using EntryReader = std::unique_ptr<zip_file_t, Close>;

struct Entry {
  uint64_t index = 0;
  std::string name;  // of the array
  uint64_t size = 0;
};

absl::Status Damaged(absl::string_view name, zip_error_t* error) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", EscapeForMessage(zip_error_strerror(error))));
}

absl::StatusOr<Archive> Open(absl::Span<const std::byte> file) {
  // The library would take it for an archive without entries.
  if (file.empty()) return absl::InvalidArgumentError("npz: the file is empty");
  zip_error_t error;
  zip_error_init(&error);
  Archive archive;
  zip_source_t* const source = zip_source_buffer_create(file.data(), file.size(), 0, &error);
  if (source != nullptr) {
    archive.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
    if (archive == nullptr) zip_source_free(source);
  }
  const absl::Status status = archive == nullptr ? Damaged("npz", &error) : absl::OkStatus();
  zip_error_fini(&error);
  if (!status.ok()) return status;
  return archive;
}

absl::Status CheckSizes(const std::string& name, const zip_stat_t& info) {
  const auto fail = [&name](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(name), ": ", what...));
  };
  constexpr zip_uint64_t kWanted =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((info.valid & kWanted) != kWanted) return fail("sizes and method are not stated");
  if (info.encryption_method != ZIP_EM_NONE) return fail("encrypted");
  if (info.comp_method == ZIP_CM_STORE) {
    return info.size == info.comp_size ? absl::OkStatus()
                                       : fail("takes ", info.comp_size, " bytes, wanted ", info.size);
  }
  if (info.comp_method != ZIP_CM_DEFLATE) {
    return fail("compression method ", info.comp_method, ": wanted 0 (none) or 8 (deflate)");
  }
  if (info.size / kMaxInflation <= info.comp_size) return absl::OkStatus();
  return fail(info.size, " bytes are more than ", info.comp_size, " deflated ones can give");
}

absl::StatusOr<std::string> ArrayName(absl::string_view entry) {
  absl::string_view name = entry;
  if (!absl::ConsumeSuffix(&name, ".npy") || name.empty() || HasControlCharacter(name) || !IsUtf8(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("npz: entry \"", EscapeForMessage(entry),
                     "\": wanted a name and .npy, in UTF-8 and without control characters"));
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

// What the directory says. All of it is looked at before any entry is read.
absl::StatusOr<std::vector<Entry>> ListEntries(zip_t* archive, uint64_t file_size, uint64_t max_bytes) {
  std::vector<Entry> entries;
  absl::flat_hash_set<std::string> names;
  uint64_t left = file_size, bytes = 0;
  const auto count = static_cast<uint64_t>(zip_get_num_entries(archive, 0));
  if (count > kMaxEntries) {
    return absl::InvalidArgumentError(absl::StrCat("npz: wanted at most ", kMaxEntries, " entries, found ", count));
  }
  if (HasPickle(archive, count)) return PickleError();
  for (uint64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive, i, 0, &info) != 0) return Damaged("npz", zip_get_error(archive));
    if ((info.valid & ZIP_STAT_NAME) == 0) return absl::InvalidArgumentError("npz: an entry has no name");
    // A folder, which zip programs write and numpy does not.
    if (absl::EndsWith(info.name, "/")) continue;
    absl::StatusOr<std::string> name = ArrayName(info.name);
    if (!name.ok()) return name.status();
    if (!names.insert(*name).second)
      return absl::InvalidArgumentError(absl::StrCat("duplicate array ", EscapeForMessage(*name)));
    if (absl::Status status = CheckSizes(*name, info); !status.ok()) return status;
    if (info.comp_size > left) {
      return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(*name), ": overlaps with others: its ",
                                                     info.comp_size, " bytes are more than they leave of the file"));
    }
    left -= info.comp_size;
    bytes = bytes + info.size < bytes ? ~uint64_t{0} : bytes + info.size;
    entries.push_back({i, *std::move(name), info.size});
  }
  if (bytes <= max_bytes) return entries;
  return absl::ResourceExhaustedError(absl::StrCat("npz: the arrays take ", bytes, " bytes, the limit is ", max_bytes));
}

// All bytes of an entry. `at_once` of them are believed without having been seen.
absl::StatusOr<std::vector<std::byte>> ReadEntry(zip_t* archive, const Entry& entry, uint64_t at_once) {
  const EntryReader reader(zip_fopen_index(archive, entry.index, 0));
  if (reader == nullptr) return Damaged(EscapeForMessage(entry.name), zip_get_error(archive));
  std::vector<std::byte> bytes;
  // One byte more than wanted: the library compares the checksum when it meets the end.
  const uint64_t wanted = entry.size + 1;
  uint64_t found = 0;
  while (true) {
    if (found == bytes.size()) bytes.resize(std::min(wanted, std::max(2 * found, at_once + 1)));
    const zip_int64_t read = zip_fread(reader.get(), bytes.data() + found, bytes.size() - found);
    if (read < 0) return Damaged(EscapeForMessage(entry.name), zip_file_get_error(reader.get()));
    found += static_cast<uint64_t>(read);
    if (read == 0 || found == wanted) break;
  }
  if (found != entry.size) {
    return absl::InvalidArgumentError(absl::StrCat(EscapeForMessage(entry.name), ": ",
                                                   found == wanted ? "more than " : "", std::min(found, entry.size),
                                                   " bytes, wanted ", entry.size));
  }
  bytes.resize(found);
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
  // Where the array was turned, its own bytes are done with.
  map.storage.push_back(array->storage.empty() ? std::move(bytes) : std::move(array->storage[0]));
  return absl::OkStatus();
}

}  // namespace

bool IsPickleEntry(absl::string_view name) { return name == "data.pkl" || absl::EndsWith(name, "/data.pkl"); }

absl::StatusOr<TensorMap> ParseNpz(absl::Span<const std::byte> file, uint64_t max_bytes) {
  const absl::StatusOr<Archive> archive = Open(file);
  if (!archive.ok()) return archive.status();
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
