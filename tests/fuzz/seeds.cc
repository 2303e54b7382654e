// Writes the initial corpus of the fuzzer, small files that contain every feature of their format: fuzz_seeds FOLDER
// writes FOLDER/safetensors-0, FOLDER/safetensors-1, …, FOLDER/msgpack-0, …

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/testing/files/msgpack.h"
#include "tests/testing/files/npz.h"

namespace attention::fuzz {
namespace {

using Files = std::vector<std::string>;
using server::DType;

std::string Safetensors(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

Files SafetensorsSeeds() {
  return {Safetensors("{}", ""), Safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "abcdefgh"),
          Safetensors(R"({"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
                      R"("\u0079":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}  )",
                      "abcdefghijkl")};
}

Files MsgpackSeeds() {
  using namespace test;  // NOLINT(google-build-using-namespace): the packers
  const std::string array = PackArray({2}, "float16", "abcd");
  const std::string scalar = PackExtension(3, PackArrayPayload({}, "int32", "abcd"));
  return {
      PackMap({}), PackMap({{"query", PackMap({{"kernel", array}})}, {"num_heads", PackNumber(int64_t{2})}}),
      PackMap({{"w", PackChunkedArray({2, 2}, DType::kFloat32, "abcdefghijklmnop", 8)}}),
      PackMap({{"list", PackList({array, PackNumber(0.5), PackBool(true), PackText("text"), "\xC0"})}, {"s", scalar}})};
}

Files NpySeeds() {
  const std::string row_major = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::string column_major = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 1, 3), }";
  return {test::MakeNpy(row_major, "abcdefgh"), test::MakeNpy(column_major, "abcdefghijkl", 3),
          test::MakeNpy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "a", 2)};
}

Files NpzSeeds() {
  const Files arrays = NpySeeds();
  return {"PK\5\6" + std::string(18, '\0'), test::MakeZip({{"a/b.npy", arrays[0]}}),
          test::MakeZip({{"a.npy", arrays[1]}, {"b.npy", arrays[2]}}, true),
          test::MakeZip({{"folder/", ""},
                         {"zeros.npy", test::MakeNpy("{'descr': '|u1', 'fortran_order': False, "
                                                     "'shape': (500,), }",
                                                     std::string(500, '\0'))}},
                        true)};
}

bool Write(const std::filesystem::path& folder, const std::string& format, const Files& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    std::ofstream file(folder / (format + "-" + std::to_string(i)), std::ios::binary);
    if (!file.write(files[i].data(), static_cast<std::streamsize>(files[i].size()))) return false;
  }
  return true;
}

}  // namespace
}  // namespace attention::fuzz

int main(int argc, char** argv) {
  using namespace attention::fuzz;  // NOLINT(google-build-using-namespace)
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const bool written = Write(folder, "safetensors", SafetensorsSeeds()) && Write(folder, "msgpack", MsgpackSeeds()) &&
                       Write(folder, "npy", NpySeeds()) && Write(folder, "npz", NpzSeeds());
  if (!written) std::cerr << "cannot write to " << folder << "\n";
  return written ? 0 : 1;
}
