#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/sha256.h"
#include "server/weights/repository.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"

namespace attention::server {

// Bytes of OnesLayer in float32, the layer that File contains for each path.
inline constexpr int64_t kOnesBytes = 4 * (3 * 12 + 16);

// A checkpoint file with a layer at each path: "", "layer0/". Another `content` gives other bytes.
inline std::string File(const std::vector<std::string>& paths = {""}, float content = 1) {
  LayerParameters layer = test::OnesLayer();
  layer.query_kernel[0] = content;
  test::Parameters parameters;
  for (const std::string& path : paths) {
    for (test::Parameter& parameter : test::ToParameters(layer, path)) parameters.push_back(std::move(parameter));
  }
  return test::Serialize(parameters);
}

// The content that tests use for version `version`.
inline std::string Content(int version) { return File({""}, static_cast<float>(version)); }

inline std::string DigestOf(const std::string& file) {
  return Sha256Of(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(file.data()), file.size()));
}

// A weights folder and a repository on it. Start restarts the repository.
class RepositoryFixture : public ::testing::Test {
 protected:
  RepositoryFixture() { std::filesystem::create_directories(Path("weights")); }

  // Starts a new repository, as a new process does: nothing remains in memory.
  Repository::StartReport Start() {
    repository_.reset();
    registry_ = std::make_unique<Registry>();
    options_.dir = Path("weights");
    repository_ = std::make_unique<Repository>(options_, registry_.get());
    absl::StatusOr<Repository::StartReport> report = repository_->LoadAll();
    EXPECT_THAT(report, test::IsOk());
    return report.ok() ? *std::move(report) : Repository::StartReport();
  }

  absl::StatusOr<Published> UploadFile(const std::string& checkpoint, const std::string& file, bool replace = false) {
    auto upload = repository_->BeginUpload(
        {.checkpoint = checkpoint, .bytes = static_cast<int64_t>(file.size()), .replace = replace});
    if (!upload.ok()) return upload.status();
    if (absl::Status status = (*upload)->Write(file); !status.ok()) return status;
    return (*upload)->Commit();
  }

  std::string Path(const std::string& name) const { return (outer_.path() / name).string(); }
  void Write(const std::string& name, const std::string& file) const { outer_.Write("weights/" + name, file); }

  // "ocr@2 (stable)", sorted by name, of equal names the highest version first.
  static std::vector<std::string> Describe(const std::vector<ServedWeightSet>& list) {
    std::vector<std::string> texts;
    for (const auto& [weight_set, aliases] : list) {
      texts.push_back(absl::StrCat(weight_set->name, "@", weight_set->version));
      for (const std::string& alias : aliases) absl::StrAppend(&texts.back(), " (", alias, ")");
    }
    return texts;
  }

  std::vector<std::string> Served() const { return Describe(registry_->List()); }

  // Every file below the folder except the lock: "ocr.safetensors", ".attention/manifest.json".
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("weights"))) {
      const std::string name = entry.path().lexically_relative(Path("weights")).string();
      if (!entry.is_directory() && name != ".attention/lock") files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  static std::string Blob(const std::string& file) {
    return absl::StrCat(".attention/blobs/", DigestOf(file), ".safetensors");
  }

  test::TemporaryFolder outer_;  // contains "weights"
  RepositoryOptions options_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Repository> repository_;
};

}  // namespace attention::server
