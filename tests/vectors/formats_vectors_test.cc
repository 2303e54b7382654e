// Checkpoint files from public bug reports, and a trained model's weights in three formats, read by the parsers alone.

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/layouts/layers.h"
#include "tests/testing/files/tensors.h"
#include "tests/testing/matchers.h"
#include "tests/testing/vectors/vectors.h"

namespace attention::test {
namespace {

using server::NamedTensor;
using server::TensorMap;
using ::testing::HasSubstr;

// The tensors of a file that has an attention layer.
absl::StatusOr<TensorMap> Parse(absl::Span<const std::byte> file) {
  absl::StatusOr<TensorMap> map = ParseCheckpoint(file);
  if (!map.ok()) return map;
  const auto layers = server::FindLayers("ocr", *map);
  if (!layers.ok()) return layers.status();
  return map;
}

class FormatsVectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  }
};

class ReportFormatsVectorsTest : public FormatsVectorsTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(ReportFormatsVectorsTest, EveryFileGetsItsStatus) {
  const auto report = nlohmann::json::parse(ReadText(*VectorsFolder() / "reports" / (GetParam() + ".json")));
  for (const auto& file : report.at("inputs").at("files")) {
    const std::string name = file.at("name");
    SCOPED_TRACE(name);
    std::string content;
    ASSERT_TRUE(absl::Base64Unescape(file.at("base64").get<std::string>(), &content));
    // An exact copy, so that an address sanitizer sees every byte read beyond it.
    const std::vector<char> bytes(content.begin(), content.end());
    const auto map = Parse({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    const auto& expected = report.at("expected").at("files").at(name);
    ASSERT_EQ(absl::StatusCodeToString(map.status().code()), expected.at("status").get<std::string>()) << map.status();
    for (const auto& part : expected.value("message_contains", nlohmann::json::array())) {
      EXPECT_THAT(std::string(map.status().message()), HasSubstr(part.get<std::string>()));
    }
    if (map.ok()) {
      EXPECT_FALSE(map->tensors.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reports, ReportFormatsVectorsTest,
                         ::testing::Values("16-safetensors-duplicate-keys", "17-safetensors-malformed",
                                           "19-safetensors-unaligned", "23-flax-msgpack",
                                           "49-foreign-types-beside-the-layer"),
                         [](const auto& info) { return info.param.substr(0, 2); });

TEST_F(FormatsVectorsTest, MsgpackHoldsTheTensorsOfSafetensors) {
  const auto weights = OpenTensorFile(*VectorsFolder() / "real" / "ppocrv4-rec.weights.safetensors");
  ASSERT_THAT(weights, IsOk());
  ASSERT_EQ(weights->tensors.tensors.size(), 16u);
  for (const char* name : {"ppocrv4-rec.msgpack", "ppocrv4-rec.chunked.msgpack"}) {
    SCOPED_TRACE(name);
    const auto file = server::ReadFile((*VectorsFolder() / "real" / name).string(), name);
    ASSERT_THAT(file, IsOk());
    const auto map = Parse(*file);
    ASSERT_THAT(map, IsOk());
    EXPECT_EQ(map->tensors.size(), 16u);
    for (const NamedTensor& expected : weights->tensors.tensors) {
      const NamedTensor* const found = map->Find("params/" + expected.name);
      ASSERT_NE(found, nullptr) << expected.name;
      EXPECT_EQ(found->dtype, expected.dtype) << expected.name;
      EXPECT_EQ(found->shape, expected.shape) << expected.name;
      EXPECT_TRUE(found->data == expected.data) << expected.name;
    }
  }
}

}  // namespace
}  // namespace attention::test
