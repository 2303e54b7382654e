#include "server/weights/store/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/names.h"
#include "server/checkpoint/sha256.h"

namespace attention::server {
namespace {

using Json = nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr int kIndent = 1;

Json ToJson(const FileIdentity& identity) {
  return {{"inode", identity.inode},
          {"bytes", identity.bytes},
          {"modified_ns", identity.modified_ns},
          {"changed_ns", identity.changed_ns}};
}

Json ToJson(const ManifestVersion& version) {
  return {{"sha256", version.sha256},
          {"bytes", version.bytes},
          {"format", version.format},
          {"num_heads", version.num_heads},
          {"blob", version.blob}};
}

Json ToJson(const ManifestFile& file) {
  Json json = {{"sha256", file.sha256}, {"num_heads", file.num_heads}};
  if (file.identity) json["identity"] = ToJson(*file.identity);
  return json;
}

Json ToJson(const ManifestCheckpoint& checkpoint) {
  Json json = {{"last_version", checkpoint.last_version},
               {"loaded", checkpoint.loaded},
               {"aliases", Json(checkpoint.aliases)},
               {"versions", Json::object()},
               {"deleted_files", Json::object()}};
  for (const auto& [number, version] : checkpoint.versions) json["versions"][absl::StrCat(number)] = ToJson(version);
  if (checkpoint.file) json["file"] = ToJson(*checkpoint.file);
  for (const auto& [extension, identity] : checkpoint.deleted_files) {
    json["deleted_files"][extension] = ToJson(identity);
  }
  return json;
}

Json ToJson(const Manifest& manifest) {
  Json json = {{"format", kFormatVersion}, {"checkpoints", Json::object()}};
  for (const auto& [name, checkpoint] : manifest.checkpoints) json["checkpoints"][name] = ToJson(checkpoint);
  if (manifest.forgotten_last_version > 0) json["forgotten_last_version"] = manifest.forgotten_last_version;
  return json;
}

// The Read functions throw nlohmann exceptions for a missing field or one of another type.

FileIdentity ReadIdentity(const Json& json) {
  return {.inode = json.at("inode").get<uint64_t>(),
          .bytes = json.at("bytes").get<int64_t>(),
          .modified_ns = json.at("modified_ns").get<int64_t>(),
          .changed_ns = json.at("changed_ns").get<int64_t>()};
}

ManifestVersion ReadVersion(const Json& json) {
  return {.sha256 = json.at("sha256").get<std::string>(),
          .bytes = json.at("bytes").get<int64_t>(),
          .format = json.at("format").get<std::string>(),
          .num_heads = json.at("num_heads").get<int64_t>(),
          .blob = json.at("blob").get<bool>()};
}

ManifestFile ReadFile(const Json& json) {
  ManifestFile file{.sha256 = json.at("sha256").get<std::string>(),
                    .num_heads = json.at("num_heads").get<int64_t>(),
                    .identity = std::nullopt};
  if (json.contains("identity")) file.identity = ReadIdentity(json.at("identity"));
  return file;
}

ManifestCheckpoint ReadCheckpoint(const Json& json) {
  ManifestCheckpoint checkpoint;
  checkpoint.last_version = json.at("last_version").get<int64_t>();
  checkpoint.loaded = json.at("loaded").get<bool>();
  for (const auto& [number, version] : json.at("versions").items()) {
    checkpoint.versions.emplace(std::stoll(number), ReadVersion(version));
  }
  for (const auto& [alias, version] : json.at("aliases").items()) {
    checkpoint.aliases.emplace(alias, version.get<int64_t>());
  }
  if (json.contains("file")) checkpoint.file = ReadFile(json.at("file"));
  for (const auto& [extension, identity] : json.at("deleted_files").items()) {
    checkpoint.deleted_files.emplace(extension, ReadIdentity(identity));
  }
  return checkpoint;
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", EscapeForMessage(text), "\""); }

absl::Status CheckFormat(absl::string_view field, const std::string& format) {
  if (FindCheckpointFormat(format) != nullptr) return absl::OkStatus();
  return FieldError(field, "the name of a checkpoint format", Quoted(format));
}

absl::Status CheckVersions(const ManifestCheckpoint& checkpoint) {
  for (const auto& [number, version] : checkpoint.versions) {
    if (number < 1 || number > checkpoint.last_version) {
      return FieldError("versions", absl::StrCat("1 to last_version ", checkpoint.last_version), number);
    }
    if (!IsSha256(version.sha256))
      return FieldError("sha256", "64 lower case hexadecimal digits", Quoted(version.sha256));
    if (auto status = CheckFormat("format", version.format); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckAliases(const ManifestCheckpoint& checkpoint) {
  for (const auto& [alias, version] : checkpoint.aliases) {
    if (auto status = CheckAlias("aliases", alias); !status.ok()) return status;
    if (checkpoint.versions.contains(version)) continue;
    return absl::InvalidArgumentError(absl::StrCat("aliases: ", alias, " names the missing version ", version));
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const ManifestCheckpoint& checkpoint) {
  if (auto status = CheckVersions(checkpoint); !status.ok()) return status;
  if (auto status = CheckAliases(checkpoint); !status.ok()) return status;
  for (const auto& [extension, identity] : checkpoint.deleted_files) {
    if (auto status = CheckFormat("deleted_files", extension); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

void ForgetDeleted(Manifest& manifest, size_t kept) {
  std::vector<std::pair<int64_t, std::string>> deleted;
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    const bool is_deleted = checkpoint.versions.empty() && checkpoint.deleted_files.empty() && !checkpoint.file;
    if (is_deleted) deleted.emplace_back(checkpoint.last_version, name);
  }
  if (deleted.size() <= kept) return;
  std::sort(deleted.begin(), deleted.end());
  deleted.resize(deleted.size() - kept);
  for (const auto& [last_version, name] : deleted) manifest.checkpoints.erase(name);
  manifest.forgotten_last_version = std::max(manifest.forgotten_last_version, deleted.back().first);
}

std::string SerializeManifest(const Manifest& manifest) { return ToJson(manifest).dump(kIndent) + "\n"; }

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  Manifest manifest;
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (json.at("format") != kFormatVersion) {
      return FieldError("format", kFormatVersion, EscapeForMessage(json.at("format").dump()));
    }
    for (const auto& [name, checkpoint] : json.at("checkpoints").items()) {
      manifest.checkpoints.emplace(name, ReadCheckpoint(checkpoint));
    }
    manifest.forgotten_last_version = json.value("forgotten_last_version", int64_t{0});
    // The next change would lose fields that were not read.
    if (ToJson(manifest) != json) return absl::InvalidArgumentError("unknown fields or values");
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(EscapeForMessage(error.what()));
  }
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    if (auto status = CheckName("checkpoint", name); !status.ok()) return status;
    const absl::Status status = CheckCheckpoint(checkpoint);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("checkpoint ", EscapeForMessage(name), ": ", status.message()));
    }
  }
  return manifest;
}

}  // namespace attention::server
