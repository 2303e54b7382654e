#pragma once

#include <string>
#include <vector>

namespace attention::test {

struct ZipEntry {
  std::string name;
  std::string bytes;
};

// A zip file with stored or deflated entries. REQUIRES: at least one entry, unique names.
std::string MakeZip(const std::vector<ZipEntry>& entries, bool deflate = false);

// A .npy file with this header and data. `version` is 1, 2 or 3.
std::string MakeNpy(const std::string& header, const std::string& data, int version = 1);

}  // namespace attention::test
