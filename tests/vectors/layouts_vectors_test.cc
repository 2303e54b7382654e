// Checkpoints in all their layouts: the trained layers of a text recogniser, and files with wrong shapes.

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/formats/npy.h"
#include "server/checkpoint/formats/safetensors.h"
#include "server/checkpoint/layouts/layers.h"
#include "tests/testing/files/npz.h"
#include "tests/testing/files/tensors.h"
#include "tests/testing/matchers.h"
#include "tests/testing/vectors/vectors.h"
#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

using server::LayerParameters;
using Floats = std::vector<float>;

absl::Span<const std::byte> Bytes(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

// The layers of a file of any format, by the names of their weight sets.
absl::StatusOr<std::map<std::string, LayerParameters>> ReadLayers(absl::Span<const std::byte> file,
                                                                  int64_t num_heads = 0) {
  const auto tensors = ParseCheckpoint(file);
  if (!tensors.ok()) return tensors.status();
  const auto found = server::FindLayers("ocr", *tensors, {.num_heads = num_heads});
  if (!found.ok()) return found.status();
  if (!found->unused_tensors.empty()) return absl::InternalError("unused: " + found->unused_tensors[0]);
  std::map<std::string, LayerParameters> layers;
  for (const server::LayerTensors& layer : found->layers) layers[layer.name] = server::ReadParameters(layer);
  return layers;
}

// torch.nn.Linear's matrix [columns, rows] of a kernel [rows, columns].
Floats Turned(const Floats& kernel, size_t rows) {
  const size_t columns = kernel.size() / rows;
  Floats turned(kernel.size());
  for (size_t i = 0; i < kernel.size(); ++i) turned[i % columns * rows + i / columns] = kernel[i];
  return turned;
}

Floats Joined(Floats a, const Floats& b, const Floats& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

// What PyTorch would call a layer's parameters. REQUIRES: all its widths are the same.
struct TorchLayer {
  explicit TorchLayer(const LayerParameters& layer)
      : embed(layer.shape.in_features),
        query(Turned(layer.query_kernel, embed)),
        key(Turned(layer.key_kernel, embed)),
        value(Turned(layer.value_kernel, embed)),
        out(Turned(layer.out_kernel, embed)) {}

  int64_t embed;
  Floats query, key, value, out;
};

Parameters Packed(const LayerParameters& layer, const std::string& prefix) {
  const TorchLayer torch(layer);
  const int64_t embed = torch.embed;
  return {
      FloatParameter(prefix + "in_proj_weight", {3 * embed, embed}, Joined(torch.query, torch.key, torch.value)),
      FloatParameter(prefix + "in_proj_bias", {3 * embed}, Joined(layer.query_bias, layer.key_bias, layer.value_bias)),
      FloatParameter(prefix + "out_proj.weight", {embed, embed}, torch.out),
      FloatParameter(prefix + "out_proj.bias", {embed}, layer.out_bias)};
}

Parameters Separate(const LayerParameters& layer, const std::string& prefix) {
  const TorchLayer torch(layer);
  const server::Shape square = {torch.embed, torch.embed};
  Parameters parameters = Packed(layer, prefix);
  parameters.erase(parameters.begin());
  parameters.push_back(FloatParameter(prefix + "q_proj_weight", square, torch.query));
  parameters.push_back(FloatParameter(prefix + "k_proj_weight", square, torch.key));
  parameters.push_back(FloatParameter(prefix + "v_proj_weight", square, torch.value));
  return parameters;
}

// The names of the bert and projections layouts, in which each matrix has a bias of its own.
Parameters Linear(const LayerParameters& layer, const std::array<std::string, 4>& modules) {
  const TorchLayer torch(layer);
  const Floats* const matrices[] = {&torch.query, &torch.key, &torch.value, &torch.out};
  const Floats* const biases[] = {&layer.query_bias, &layer.key_bias, &layer.value_bias, &layer.out_bias};
  Parameters parameters;
  for (size_t i = 0; i < modules.size(); ++i) {
    parameters.push_back(FloatParameter(modules[i] + ".weight", {torch.embed, torch.embed}, *matrices[i]));
    parameters.push_back(FloatParameter(modules[i] + ".bias", {torch.embed}, *biases[i]));
  }
  return parameters;
}

Parameters Bert(const LayerParameters& layer, const std::string& prefix) {
  return Linear(layer, {prefix + "self.query", prefix + "self.key", prefix + "self.value", prefix + "output.dense"});
}

Parameters Projections(const LayerParameters& layer, const std::string& prefix) {
  return Linear(layer, {prefix + "q_proj", prefix + "k_proj", prefix + "v_proj", prefix + "o_proj"});
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectSameBits(const LayerParameters& read, const LayerParameters& expected) {
  EXPECT_EQ(read.shape.in_features, 120);
  EXPECT_EQ(read.shape.heads.num_heads, 8);
  EXPECT_EQ(read.shape.heads.num_kv_heads, 8);
  EXPECT_EQ(read.shape.heads.head_dim, 15);
  EXPECT_EQ(read.shape.heads.value_head_dim, 15);
  EXPECT_EQ(read.shape.out_features, 120);
  EXPECT_TRUE(SameBits(read.query_kernel, expected.query_kernel));
  EXPECT_TRUE(SameBits(read.query_bias, expected.query_bias));
  EXPECT_TRUE(SameBits(read.key_kernel, expected.key_kernel));
  EXPECT_TRUE(SameBits(read.key_bias, expected.key_bias));
  EXPECT_TRUE(SameBits(read.value_kernel, expected.value_kernel));
  EXPECT_TRUE(SameBits(read.value_bias, expected.value_bias));
  EXPECT_TRUE(SameBits(read.out_kernel, expected.out_kernel));
  EXPECT_TRUE(SameBits(read.out_bias, expected.out_bias));
}

class RealLayoutsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = VectorsFolder();
    if (!folder.has_value()) GTEST_SKIP() << kNoVectors;
    folder_ = *folder / "real";
    const auto layers = ReadLayers(Bytes(ReadText(folder_ / "ppocrv4-rec.weights.safetensors")));
    ASSERT_THAT(layers, IsOk());
    ASSERT_EQ(layers->size(), 2);
    flax_ = *layers;
    ASSERT_EQ(flax_.at("ocr/layer1").query_kernel.size(), 14400);
  }

  void ExpectFlaxLayers(const absl::StatusOr<std::map<std::string, LayerParameters>>& layers) const {
    ASSERT_THAT(layers, IsOk());
    ASSERT_EQ(layers->size(), 2);
    for (const auto& [name, layer] : *layers) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(flax_.contains(name));
      ExpectSameBits(layer, flax_.at(name));
    }
  }

  std::filesystem::path folder_;
  std::map<std::string, LayerParameters> flax_;
};

TEST_F(RealLayoutsTest, GiveTheSameBitsFromEveryLayout) {
  for (const auto& write : {Packed, Separate, Bert, Projections}) {
    Parameters parameters = write(flax_.at("ocr/layer0"), "layer0.");
    const Parameters more = write(flax_.at("ocr/layer1"), "layer1.");
    parameters.insert(parameters.end(), more.begin(), more.end());
    SCOPED_TRACE(parameters[0].name);
    ExpectFlaxLayers(ReadLayers(Bytes(Serialize(parameters)), 8));
  }
}

TEST_F(RealLayoutsTest, GiveTheSameBitsFromTheFilesOfFlax) {
  for (const char* name : {"ppocrv4-rec.msgpack", "ppocrv4-rec.chunked.msgpack"}) {
    SCOPED_TRACE(name);
    ExpectFlaxLayers(ReadLayers(Bytes(ReadText(folder_ / name))));
  }
}

TEST_F(RealLayoutsTest, GiveTheSameBitsFromNpz) {
  const auto flax = OpenTensorFile(folder_ / "ppocrv4-rec.weights.safetensors");
  ASSERT_THAT(flax, IsOk());
  std::vector<ZipEntry> entries;
  for (const server::NamedTensor& tensor : flax->tensors.tensors) {
    const auto npy = server::SerializeNpy(tensor);
    ASSERT_THAT(npy, IsOk());
    entries.push_back({tensor.name + ".npy", {reinterpret_cast<const char*>(npy->data()), npy->size()}});
  }
  for (const bool deflate : {false, true}) ExpectFlaxLayers(ReadLayers(Bytes(MakeZip(entries, deflate))));
}

// Several of the wrong shapes have as many elements as the right one.
TEST(ShapeCheckVectorsTest, RefusesAWrongShapeWhenItIsLoadedAndNamesIt) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  const std::string name = "22-shape-check-on-load";
  const absl::StatusOr<Report> report = ReadReport(name);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->files.size(), 10);
  const auto json = nlohmann::json::parse(ReadText(*VectorsFolder() / "reports" / (name + ".json")));
  for (const auto& [file, content] : report->files) {
    SCOPED_TRACE(file);
    const absl::Status status = ReadLayers(Bytes(content)).status();
    const nlohmann::json& expected = json.at("expected").at("files").at(file);
    EXPECT_EQ(absl::StatusCodeToString(status.code()), expected.at("status").get<std::string>());
    for (const nlohmann::json& part : expected.value("message_contains", nlohmann::json::array())) {
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(part.get<std::string>()));
    }
  }
}

TEST(ShapeCheckVectorsTest, ReadsTheGoodFile) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  const absl::StatusOr<Report> report = ReadReport("22-shape-check-on-load");
  ASSERT_THAT(report, IsOk());
  const auto layers = ReadLayers(Bytes(report->files.at("good")));
  ASSERT_THAT(layers, IsOk());
  ASSERT_TRUE(layers->contains("ocr"));
  const LayerParameters &read = layers->at("ocr"), expected = OnesLayer();
  EXPECT_EQ(read.query_kernel, expected.query_kernel);
  EXPECT_EQ(read.key_kernel, expected.key_kernel);
  EXPECT_EQ(read.value_kernel, expected.value_kernel);
  EXPECT_EQ(read.out_kernel, expected.out_kernel);
  EXPECT_EQ(read.query_bias, Floats(4, 0.0f));
}

}  // namespace
}  // namespace attention::test
