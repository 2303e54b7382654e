#pragma once

#include <filesystem>
#include <string>

namespace attention::test {

// A new empty folder that goes, with all that is in it, when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, and the folders above it, in one step: a reader sees the old content or the new. `name` may hold
  // slashes.
  void Write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace attention::test
