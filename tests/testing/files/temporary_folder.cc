#include "tests/testing/files/temporary_folder.h"

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace attention::test {

TemporaryFolder::TemporaryFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "attention-test-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::Write(const std::string& name, const std::string& content) const {
  const std::filesystem::path path = path_ / name;
  const std::filesystem::path beside = path_ / (path.filename().string() + ".new");
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(beside, std::ios::binary) << content;
  std::filesystem::rename(beside, path);
}

}  // namespace attention::test
