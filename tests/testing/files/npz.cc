#include "tests/testing/files/npz.h"

#include <zip.h>

#include <cstdlib>

namespace attention::test {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

std::string MakeZip(const std::vector<ZipEntry>& entries, bool deflate) {
  zip_source_t* const file = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_t* const archive = zip_open_from_source(file, ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  Require(archive != nullptr);
  zip_source_keep(file);  // zip_close would free it
  for (const ZipEntry& entry : entries) {
    zip_source_t* const bytes = zip_source_buffer(archive, entry.bytes.data(), entry.bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, entry.name.c_str(), bytes, ZIP_FL_ENC_UTF_8);
    Require(index >= 0);
    const auto added = static_cast<zip_uint64_t>(index);
    Require(zip_set_file_compression(archive, added, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 9) == 0);
    Require(zip_file_set_dostime(archive, added, 0, 0x21, 0) == 0);  // makes the bytes reproducible
  }
  Require(zip_close(archive) == 0);

  zip_stat_t info;
  Require(zip_source_stat(file, &info) == 0 && zip_source_open(file) == 0);
  std::string result(info.size, '\0');
  Require(zip_source_read(file, result.data(), result.size()) == static_cast<zip_int64_t>(result.size()));
  zip_source_close(file);
  zip_source_free(file);
  return result;
}

std::string MakeNpy(const std::string& header, const std::string& data, int version) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

}  // namespace attention::test
