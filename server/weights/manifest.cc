#include "server/weights/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/checkpoint/sha256.h"

namespace attention::server {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
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
  Json json = {{"format", kFormat}, {"checkpoints", Json::object()}};
  for (const auto& [name, checkpoint] : manifest.checkpoints) json["checkpoints"][name] = ToJson(checkpoint);
  return json;
}

// The way back throws what nlohmann throws for a field that is missing or of another type.

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

bool IsFormat(absl::string_view format) { return format == "safetensors" || format == "msgpack" || format == "npz"; }

absl::Status Contradiction(const std::string& checkpoint, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint), ": ", what));
}

absl::Status CheckCheckpoint(const std::string& name, const ManifestCheckpoint& checkpoint) {
  if (auto status = CheckName("checkpoint", name); !status.ok()) return status;
  for (const auto& [number, version] : checkpoint.versions) {
    if (number < 1 || number > checkpoint.last_version) return Contradiction(name, "a version above the last");
    if (!IsSha256(version.sha256) || !IsFormat(version.format)) return Contradiction(name, "a bad digest or format");
  }
  for (const auto& [alias, version] : checkpoint.aliases) {
    if (auto status = CheckAlias("alias", alias); !status.ok()) return status;
    if (!checkpoint.versions.contains(version)) return Contradiction(name, "an alias of a version that is not there");
  }
  for (const auto& [extension, identity] : checkpoint.deleted_files) {
    if (!IsFormat(extension)) return Contradiction(name, "a bad extension");
  }
  return absl::OkStatus();
}

}  // namespace

std::string SerializeManifest(const Manifest& manifest) { return ToJson(manifest).dump(kIndent) + "\n"; }

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  Manifest manifest;
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (json.at("format") != kFormat) return absl::InvalidArgumentError("a format that this version does not know");
    for (const auto& [name, checkpoint] : json.at("checkpoints").items()) {
      manifest.checkpoints.emplace(name, ReadCheckpoint(checkpoint));
    }
    // What was not read would be lost with the next change.
    if (ToJson(manifest) != json) return absl::InvalidArgumentError("fields that this version does not know");
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(EscapeForMessage(error.what()));
  }
  for (const auto& [name, checkpoint] : manifest.checkpoints) {
    if (auto status = CheckCheckpoint(name, checkpoint); !status.ok()) return status;
  }
  return manifest;
}

}  // namespace attention::server
