#include "server/weights/version_loader.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/sha256.h"
#include "server/weights/weight_limit.h"

namespace attention::server {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;

std::string Prefix(const CatalogEntry& entry, int64_t number) {
  return absl::StrCat("checkpoint ", EscapeForMessage(entry.name), ": version ", number, ": ");
}

// Lets version `number` share the memory of one that has the same content. False if none has.
bool Share(CatalogEntry& entry, int64_t number) {
  ManifestVersion& wanted = entry.manifest.versions.at(number);
  for (const auto& [other, loaded] : entry.loaded) {
    const ManifestVersion& version = entry.manifest.versions.at(other);
    if (version.sha256 != wanted.sha256 || version.num_heads != wanted.num_heads) continue;
    wanted.format = version.format;
    entry.loaded[number] = WithVersion(loaded, number);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<FoundFile>> VersionLoader::FindFile(const CatalogEntry& entry) const {
  OperatorFiles files = FindOperatorFiles(options_.dir, entry.name);
  for (const auto& [extension, identity] : entry.manifest.deleted_files) {
    const auto file = files.find(extension);
    if (file != files.end() && file->second == identity) files.erase(file);
  }
  if (files.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", EscapeForMessage(entry.name), ": the weights folder has ", EscapeForMessage(entry.name), ".",
        files.begin()->first, " and .", files.rbegin()->first, ", wanted one of them"));
  }
  if (files.empty()) return std::nullopt;
  const absl::Time now = options_.now();
  auto open = OpenFile(options_.dir, entry.name, files.begin()->first);
  if (absl::IsNotFound(open.status())) return std::nullopt;
  if (!open.ok()) return open.status();
  const std::optional<ManifestFile>& taken = entry.manifest.file;
  std::string sha256 = taken && taken->identity == open->identity ? taken->sha256 : Sha256Of(open->mapping.bytes());
  std::optional<FileIdentity> identity;
  if (IsSettled(open->identity, now)) identity = open->identity;
  return FoundFile{*std::move(open), std::move(sha256), identity};
}

std::vector<absl::Status> VersionLoader::Restore(CatalogEntry& entry,
                                                 const absl::StatusOr<std::optional<FoundFile>>& file) const {
  std::vector<absl::Status> broken;
  const std::map<int64_t, ManifestVersion> versions = entry.manifest.versions;
  for (const auto& [number, version] : versions) {
    if (entry.loaded.contains(number)) continue;
    absl::Status status;
    if (version.blob) {
      status = LoadBlob(entry, number);
    } else if (!file.ok()) {
      status = file.status();
    } else if (*file && (*file)->sha256 == version.sha256) {
      status = LoadFromFile(entry, number, **file);
    } else {
      spdlog::warn("checkpoint {}: version {} is gone with its file", EscapeForMessage(entry.name), number);
      // A file that brings it back is new.
      if (entry.manifest.file && entry.manifest.file->sha256 == version.sha256) entry.manifest.file.reset();
      entry.manifest.versions.erase(number);
    }
    if (!status.ok()) broken.push_back(std::move(status));
  }
  return broken;
}

absl::Status VersionLoader::Add(CatalogEntry& entry, ManifestVersion version, absl::Span<const std::byte> bytes,
                                const ParsedCheckpoint* parsed) const {
  const int64_t number = ++entry.manifest.last_version;
  entry.manifest.versions[number] = std::move(version);
  const bool shares = Share(entry, number);
  entry.DropVersions();
  return shares ? absl::OkStatus() : Load(entry, number, bytes, parsed);
}

absl::Status VersionLoader::Load(CatalogEntry& entry, int64_t number, absl::Span<const std::byte> bytes,
                                 const ParsedCheckpoint* parsed) const {
  ManifestVersion& version = entry.manifest.versions.at(number);
  absl::StatusOr<ParsedCheckpoint> read;
  if (parsed == nullptr) {
    read = ReadHeader(
        bytes,
        {.checkpoint = entry.name, .num_heads = version.num_heads, .max_weight_bytes = options_.max_weight_bytes});
    if (!read.ok()) return read.status();
    parsed = &*read;
  }
  if (auto status = registry_->CheckNames(entry.name, parsed->names()); !status.ok()) return status;
  if (auto status = CheckWeightBytes(*registry_, entry, parsed->bytes(), options_.max_weight_bytes); !status.ok()) {
    return status;
  }
  auto loaded = PackLayers(*parsed, {entry.name, number}, options_.compute_self_test);
  if (!loaded.ok()) return loaded.status();
  version.format = std::string(FormatName(parsed->format));
  entry.loaded[number] = *std::move(loaded);
  return absl::OkStatus();
}

absl::Status VersionLoader::LoadFromFile(CatalogEntry& entry, int64_t number, const FoundFile& file) const {
  if (auto status = Load(entry, number, file.bytes(), nullptr); !status.ok()) return status;
  if (file.open.IsUnchanged()) return absl::OkStatus();
  entry.loaded.erase(number);
  return absl::AbortedError(absl::StrCat(Prefix(entry, number), "its file was written to while it was read"));
}

absl::Status VersionLoader::LoadBlob(CatalogEntry& entry, int64_t number) const {
  if (Share(entry, number)) return absl::OkStatus();
  const ManifestVersion& version = entry.manifest.versions.at(number);
  const FileDescriptor file(open(store_->BlobPath(version).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0) {
    return absl::DataLossError(
        absl::StrCat(Prefix(entry, number), "its file cannot be opened: ", std::strerror(errno)));
  }
  const auto mapping = FileMapping::Map(file, S_ISREG(info.st_mode) ? info.st_size : 0);
  if (!mapping.ok()) return mapping.status();
  if (Sha256Of(mapping->bytes()) != version.sha256) {
    return absl::DataLossError(absl::StrCat(Prefix(entry, number), "its file has another digest"));
  }
  return Load(entry, number, mapping->bytes(), nullptr);
}

absl::Status VersionLoader::CopyToBlob(CatalogEntry& entry, int64_t number) const {
  ManifestVersion& version = entry.manifest.versions.at(number);
  const auto file = FindFile(entry);
  if (!file.ok()) return file.status();
  const auto changed = [&] {
    return absl::FailedPreconditionError(absl::StrCat(
        Prefix(entry, number), "only the file in the weights folder held it, and that has another content by now"));
  };
  if (!*file || (*file)->sha256 != version.sha256) return changed();
  const absl::Span<const std::byte> bytes = (*file)->bytes();
  const auto copy = store_->NewFile(static_cast<int64_t>(bytes.size()));
  if (!copy.ok()) return copy.status();
  Sha256 digest;
  for (size_t done = 0; done < bytes.size(); done += kCopyBytes) {
    // Of each piece one copy, to be hashed as it is written: the file may be written to in place.
    const auto piece = bytes.subspan(done, kCopyBytes);
    const std::vector<std::byte> held(piece.begin(), piece.end());
    digest.Update(held);
    if (auto status = store_->disk().WriteAt((*copy)->file(), done, held); !status.ok()) return status;
  }
  if (digest.Finish() != version.sha256) return changed();
  if (auto status = store_->Keep(**copy, version); !status.ok()) return status;
  version.blob = true;
  return absl::OkStatus();
}

}  // namespace attention::server
