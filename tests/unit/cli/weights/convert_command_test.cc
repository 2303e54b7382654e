#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "client/cli/commands.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/npy.h"
#include "tests/testing/files/msgpack.h"
#include "tests/testing/files/npz.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"
#include "tests/testing/vectors/vectors.h"
#include "tests/unit/checkpoint/layouts/layouts_fixture.h"
#include "tests/unit/cli/options_fixture.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using server::DType;
using server::NamedTensor;
using test::Counted;
using test::FloatParameter;
using test::IsOk;
using test::Ones;
using test::Parameter;
using test::Parameters;
using test::StatusIs;
using test::operator+;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One head of two features, in the torch layout.
Parameters Torch() {
  return {Counted("Enc.0.in_proj_weight", 6, 2), Counted("Enc.0.out_proj.weight", 2, 2, 100),
          FloatParameter("Enc.0.out_proj.bias", {2}, {7, 8})};
}

Parameter BFloat16(const std::string& name, const server::Shape& shape, const std::vector<uint16_t>& bits) {
  return {name, DType::kBFloat16, shape, {reinterpret_cast<const char*>(bits.data()), bits.size() * 2}};
}

// Every number is a different signalling NaN, which a conversion through float32 would not keep.
Parameters Projections() {
  return {BFloat16("q_proj.weight", {2, 2}, {0x7F81, 0x7F82, 0x7F83, 0x7F84}),
          BFloat16("k_proj.weight", {2, 2}, {0x7F91, 0x7F92, 0x7F93, 0x7F94}),
          BFloat16("v_proj.weight", {2, 2}, {0x7FA1, 0x7FA2, 0x7FA3, 0x7FA4}),
          BFloat16("o_proj.weight", {2, 2}, {0x7FB1, 0x7FB2, 0x7FB3, 0x7FB4})};
}

std::vector<uint16_t> Bits(const NamedTensor& tensor) {
  std::vector<uint16_t> bits(tensor.data.size() / 2);
  std::memcpy(bits.data(), tensor.data.data(), tensor.data.size());
  return bits;
}

std::vector<float> Floats(const NamedTensor& tensor) {
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class ConvertTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  absl::StatusOr<std::string> Convert(const std::string& in, const std::string& out, int64_t num_heads = 1) const {
    return cli::Run(ServerOptions{}, ConvertOptions{.in = Path(in), .out = Path(out), .num_heads = num_heads});
  }

  // Converts the content and reads what was written.
  test::TensorFile Converted(const std::string& content, int64_t num_heads = 1) const {
    folder_.Write("in", content);
    EXPECT_THAT(Convert("in", "out.safetensors", num_heads), IsOk());
    return test::OpenTensorFile(Path("out.safetensors")).value();
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ConvertTest, TransposesAndRenamesTheTorchLayout) {
  const test::TensorFile out = Converted(test::Serialize(Torch()));
  std::vector<std::string> names;
  for (const NamedTensor& tensor : out.tensors.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("Enc/0/key/bias", "Enc/0/key/kernel", "Enc/0/out/bias", "Enc/0/out/kernel",
                                 "Enc/0/query/bias", "Enc/0/query/kernel", "Enc/0/value/bias", "Enc/0/value/kernel"));
  EXPECT_EQ(out.tensors.metadata.at("format"), "flax");
  const NamedTensor& query = *out.tensors.Find("Enc/0/query/kernel");
  EXPECT_EQ(query.shape, server::Shape({2, 1, 2}));
  EXPECT_THAT(Floats(query), ElementsAre(0, 10, 1, 11));
  EXPECT_THAT(Floats(*out.tensors.Find("Enc/0/value/kernel")), ElementsAre(40, 50, 41, 51));
  const NamedTensor& kernel = *out.tensors.Find("Enc/0/out/kernel");
  EXPECT_EQ(kernel.shape, server::Shape({1, 2, 2}));
  EXPECT_THAT(Floats(kernel), ElementsAre(100, 110, 101, 111));
}

TEST_F(ConvertTest, WritesZerosForMissingBiases) {
  const test::TensorFile out = Converted(test::Serialize(Torch()));
  EXPECT_THAT(Floats(*out.tensors.Find("Enc/0/out/bias")), ElementsAre(7, 8));
  const NamedTensor& bias = *out.tensors.Find("Enc/0/key/bias");
  EXPECT_EQ(bias.shape, server::Shape({1, 2}));
  EXPECT_THAT(Floats(bias), ElementsAre(0, 0));
  EXPECT_THAT(server::FindLayers("ocr", out.tensors), IsOk());
}

TEST_F(ConvertTest, AddsNoBiasToALayerWithoutBiases) {
  const test::TensorFile out = Converted(test::Serialize(Projections()));
  EXPECT_EQ(out.tensors.tensors.size(), 4);
  EXPECT_EQ(out.tensors.Find("out/bias"), nullptr);
}

TEST_F(ConvertTest, KeepsTheTypeOfALayerBitForBit) {
  const test::TensorFile out = Converted(test::Serialize(Projections()));
  const NamedTensor& query = *out.tensors.Find("query/kernel");
  EXPECT_EQ(query.dtype, DType::kBFloat16);
  EXPECT_THAT(Bits(query), ElementsAre(0x7F81, 0x7F83, 0x7F82, 0x7F84));
  EXPECT_THAT(Bits(*out.tensors.Find("out/kernel")), ElementsAre(0x7FB1, 0x7FB3, 0x7FB2, 0x7FB4));
}

TEST_F(ConvertTest, ConvertsALayerOfSeveralTypesToFloat32) {
  Parameters parameters = Projections();
  parameters[3] = BFloat16("o_proj.weight", {2, 2}, {0x3F80, 0x4000, 0xC2F7, 0x3F00});
  const test::TensorFile out = Converted(test::Serialize(parameters + Parameters{Ones("q_proj.bias", {2})}));
  EXPECT_THAT(Floats(*out.tensors.Find("out/kernel")), ElementsAre(1, -123.5, 2, 0.5));
  EXPECT_THAT(Floats(*out.tensors.Find("query/bias")), ElementsAre(1, 1));
  EXPECT_THAT(Floats(*out.tensors.Find("out/bias")), ElementsAre(0, 0));
}

TEST_F(ConvertTest, KeepsSelfTests) {
  Parameters parameters = Torch() + Parameters{Counted("Enc.0.self_test.inputs_q", 3, 2, 5),
                                               {"Enc.0.self_test.mask", DType::kBool, {3, 3}, std::string(9, '\1')},
                                               Counted("Enc.0.self_test.output", 3, 2, 50)};
  std::vector<NamedTensor> tensors;
  for (const Parameter& p : parameters) {
    tensors.push_back({p.name, p.dtype, p.shape, {reinterpret_cast<const std::byte*>(p.bytes.data()), p.bytes.size()}});
  }
  const auto file = server::SerializeSafetensors(tensors, {{"self_test_tolerance", "1e-3"}, {"num_heads", "2"}});
  ASSERT_THAT(file, IsOk());
  const test::TensorFile out = Converted({reinterpret_cast<const char*>(file->data()), file->size()}, 0);
  EXPECT_THAT(Floats(*out.tensors.Find("Enc/0/self_test/inputs_q")), ElementsAre(5, 6, 15, 16, 25, 26));
  const auto found = server::FindLayers("ocr", out.tensors);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->layers[0].name, "ocr/enc/0");
  EXPECT_EQ(found->layers[0].shape.heads.num_heads, 2);
  ASSERT_TRUE(found->layers[0].self_test.has_value());
  EXPECT_EQ(found->layers[0].self_test->tolerance, 1e-3);
  EXPECT_EQ(found->layers[0].self_test->mask->data.size(), 9);
}

// The layer of the public question, whose kernels are ones.
TEST_F(ConvertTest, WritesTheSameTensorsFromEachFormat) {
  const Parameters layer = test::ToParameters(test::WithLayerNorm(test::OnesLayer(), 1), "layer0/");
  std::vector<test::ZipEntry> entries;
  std::vector<std::pair<std::string, std::string>> modules;
  for (const Parameter& p : layer) {
    const auto npy = server::SerializeNpy(
        {p.name, p.dtype, p.shape, {reinterpret_cast<const std::byte*>(p.bytes.data()), p.bytes.size()}});
    ASSERT_THAT(npy, IsOk());
    entries.push_back({p.name + ".npy", {reinterpret_cast<const char*>(npy->data()), npy->size()}});
    const size_t slash = p.name.rfind('/');
    modules.emplace_back(p.name.substr(7, slash - 7),
                         test::PackMap({{p.name.substr(slash + 1), test::PackArray(p.shape, "float32", p.bytes)}}));
  }
  const std::string msgpack = test::PackMap({{"params", test::PackMap({{"layer0", test::PackMap(modules)}})}});
  for (const std::string& content : {test::Serialize(layer), test::MakeZip(entries, true), msgpack}) {
    const test::TensorFile out = Converted(content, 0);
    EXPECT_EQ(out.tensors.tensors.size(), layer.size());
    for (const Parameter& p : layer) {
      const NamedTensor* tensor = out.tensors.Find(p.name);
      ASSERT_NE(tensor, nullptr) << p.name;
      EXPECT_EQ(tensor->shape, p.shape);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()), p.bytes);
    }
  }
}

TEST_F(ConvertTest, PrintsTheLayers) {
  folder_.Write("in", test::Serialize(Torch() + test::ToParameters(test::OnesLayer()) +
                                      Parameters{Ones("mlp.weight", {2}), Ones("norm.weight", {2})}));
  const absl::StatusOr<std::string> text = Convert("in", "out.safetensors");
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(*text, Path("in") +
                       ": safetensors, 2 layers\n"
                       "PATH   LAYOUT  QUERY      KEY        VALUE      OUT\n"
                       "(top)  flax    [3, 1, 4]  [3, 1, 4]  [3, 1, 4]  [1, 4, 4]\n"
                       "Enc/0  torch   [2, 1, 2]  [2, 1, 2]  [2, 1, 2]  [1, 2, 2]\n"
                       "2 tensors belong to no attention layer: mlp.weight, norm.weight\n"
                       "wrote " +
                       Path("out.safetensors") + ", 1.2 KiB\n");
}

TEST_F(ConvertTest, ReplacesItsInput) {
  folder_.Write("ocr.safetensors", test::Serialize(Torch()));
  ASSERT_THAT(Convert("ocr.safetensors", "ocr.safetensors"), IsOk());
  EXPECT_THAT(Files(), ElementsAre("ocr.safetensors"));
  const auto out = test::OpenTensorFile(Path("ocr.safetensors"));
  ASSERT_THAT(out, IsOk());
  EXPECT_THAT(Floats(*out->tensors.Find("Enc/0/query/kernel")), ElementsAre(0, 10, 1, 11));
}

TEST_F(ConvertTest, ChangesNoFileIfItFails) {
  folder_.Write("in", test::Serialize(Torch()));
  folder_.Write("out.safetensors", "before");
  EXPECT_THAT(Convert("in", "out.safetensors", 0),
              StatusIs(StatusCode::kInvalidArgument, StartsWith(Path("in") + ": num_heads: required")));
  EXPECT_EQ(test::ReadText(Path("out.safetensors")), "before");
  std::filesystem::create_directory(Path("folder.safetensors"));
  EXPECT_FALSE(Convert("in", "folder.safetensors").ok());
  EXPECT_THAT(Files(), ElementsAre("folder.safetensors", "in", "out.safetensors"));
}

TEST_F(ConvertTest, NamesTheFileInErrors) {
  folder_.Write("model.pt", std::string("\x80\x02}q\x00.", 6));
  EXPECT_THAT(Convert("model.pt", "out.safetensors"),
              StatusIs(StatusCode::kUnimplemented, AllOf(StartsWith(Path("model.pt")), HasSubstr("save_file"))));
  EXPECT_THAT(Convert("none", "out.safetensors"), StatusIs(StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(Convert("model.pt", "out.npz"),
              StatusIs(StatusCode::kInvalidArgument, "out: expected FILE.safetensors, got " + Path("out.npz")));
  folder_.Write("in", test::Serialize(Torch()));
  EXPECT_THAT(Convert("in", "none/out.safetensors"), StatusIs(StatusCode::kNotFound, HasSubstr("none/out")));
}

TEST_F(OptionsTest, ReadsConvert) {
  const auto convert = Good<ConvertOptions>({"weights", "convert", "model.npz", "out.safetensors", "--num-heads", "8"});
  EXPECT_EQ(convert.in, "model.npz");
  EXPECT_EQ(convert.out, "out.safetensors");
  EXPECT_EQ(convert.num_heads, 8);
  EXPECT_EQ(Good<ConvertOptions>({"weights", "convert", "a", "b"}).num_heads, 0);
  EXPECT_EQ(std::get<Usage>(Parse({"weights", "convert", "a"})).exit_code, kUsageError);
  EXPECT_EQ(std::get<Usage>(Parse({"weights", "convert", "a", "b", "--num-heads", "0"})).exit_code, kUsageError);
}

}  // namespace
}  // namespace attention::cli
