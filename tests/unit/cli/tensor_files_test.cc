#include "client/cli/tensor_files.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "client/cli/attend/call_inputs.h"
#include "client/cli/commands.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/npy.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFilesTest : public ::testing::Test {
 protected:
  TensorFilesTest() : folder_(::testing::TempDir() + "tensor_files." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TensorFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  static Tensor Numbers(const std::string& literal) { return ParseLiteral(literal, DataType::kFloat32).value(); }
  static Tensor Mask(const std::string& literal) { return ParseLiteral(literal, DataType::kBool).value(); }

 private:
  const std::string folder_;
};

TEST_F(TensorFilesTest, ReadsBackNpy) {
  const Tensor mask = Mask("[[true, false], [false, true]]");
  ASSERT_TRUE(WriteTensors({{Path("mask.npy"), "mask", mask}}).ok());
  const Tensor read = ReadTensor(Path("mask.npy"), "anything").value();
  EXPECT_EQ(read.dtype, DataType::kBool);
  EXPECT_EQ(read.shape, mask.shape);
  EXPECT_EQ(read.bytes, mask.bytes);
}

TEST_F(TensorFilesTest, WritesSeveralTensorsToOneSafetensorsFile) {
  const Tensor output = Numbers("[[1, 2]]"), weights = Numbers("[[0.5, 0.5]]");
  const std::string file = Path("reply.safetensors");
  ASSERT_TRUE(WriteTensors({{file, "output", output}, {file + ":w", "attn_weights", weights}}).ok());
  EXPECT_THAT(ReadTensor(file, "output").value().Floats(), ElementsAre(1, 2));
  EXPECT_THAT(ReadTensor(file + ":w", "output").value().Floats(), ElementsAre(0.5, 0.5));
}

TEST_F(TensorFilesTest, FindsTheOnlyTensorWithoutAName) {
  const Tensor tensor = Numbers("[7]");
  ASSERT_TRUE(WriteTensors({{Path("one.safetensors:x"), "output", tensor}}).ok());
  EXPECT_THAT(ReadTensor(Path("one.safetensors"), "inputs_q").value().Floats(), ElementsAre(7));
}

TEST_F(TensorFilesTest, ListsTheTensorsOfTheFileIfOneIsMissing) {
  const Tensor tensor = Numbers("[7]");
  const std::string file = Path("two.safetensors");
  ASSERT_TRUE(WriteTensors({{file + ":a", "", tensor}, {file + ":b", "", tensor}}).ok());
  EXPECT_THAT(ReadTensor(file, "inputs_q"),
              StatusIs(StatusCode::kNotFound, HasSubstr("no tensor named \"inputs_q\"; the file has a, b")));
  EXPECT_THAT(ReadTensor(file + ":c", "a"), StatusIs(StatusCode::kNotFound, HasSubstr("no tensor named \"c\"")));
}

TEST_F(TensorFilesTest, AcceptsPathsWithColons) {
  const Tensor tensor = Numbers("[7]");
  ASSERT_TRUE(WriteTensors({{Path("a:b.npy"), "output", tensor}}).ok());
  EXPECT_THAT(ReadTensor(Path("a:b.npy"), "x").value().Floats(), ElementsAre(7));
}

TEST_F(TensorFilesTest, RefusesUnsupportedTypes) {
  const std::vector<std::byte> bytes(8);
  ASSERT_TRUE(server::WriteFile(Path("int.npy"), "int.npy",
                                server::SerializeNpy({"", server::DType::kUInt32, {2}, bytes}).value())
                  .ok());
  EXPECT_THAT(
      ReadTensor(Path("int.npy"), "x"),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected a float type, bool, int32 or int64, got uint32")));
}

TEST_F(TensorFilesTest, ReadsBackSegmentIds) {
  const Tensor ids = ParseLiteral("[[1, 2], [-3, 9007199254740993]]", DataType::kInt64).value();
  ASSERT_TRUE(WriteTensors({{Path("ids.npy"), "", ids}, {Path("ids.safetensors"), "ids", ids}}).ok());
  for (const char* file : {"ids.npy", "ids.safetensors"}) {
    const Tensor read = ReadTensor(Path(file), "ids").value();
    EXPECT_EQ(read.dtype, DataType::kInt64) << file;
    EXPECT_THAT(read.Integers(), ElementsAre(1, 2, -3, 9007199254740993)) << file;
  }
}

TEST_F(TensorFilesTest, RefusesUnsupportedFiles) {
  const Tensor tensor = Numbers("[7]");
  const Tensor bfloat16{DataType::kBFloat16, {1}, std::string(2, '\0')};
  EXPECT_THAT(ReadTensor(Path("none.npy"), "x"), StatusIs(StatusCode::kNotFound, HasSubstr("none.npy")));
  EXPECT_THAT(ReadTensor(Path("x.txt"), "x"),
              StatusIs(StatusCode::kInvalidArgument,
                       "expected FILE.safetensors, FILE.safetensors:NAME or FILE.npy, got " + Path("x.txt")));
  EXPECT_THAT(
      ReadTensor(Path("x.npy:a"), "x"),
      StatusIs(StatusCode::kInvalidArgument, Path("x.npy") + ": an .npy file holds one tensor, without a name"));
  EXPECT_THAT(WriteTensors({{Path("x.npy"), "a", tensor}, {Path("x.npy"), "b", tensor}}),
              StatusIs(StatusCode::kInvalidArgument, Path("x.npy") + ": an .npy file holds one tensor, got two"));
  EXPECT_THAT(WriteTensors({{Path("x.npy"), "a", bfloat16}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("bfloat16")));
  EXPECT_THAT(WriteTensors({{"x.txt", "output", tensor}}),
              StatusIs(StatusCode::kInvalidArgument,
                       "output: expected FILE.safetensors, FILE.safetensors:NAME or FILE.npy, got x.txt"));
  EXPECT_THAT(WriteTensors({{Path("x.safetensors:a"), "", tensor}, {Path("x.safetensors:a"), "", tensor}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("x.safetensors: ")));
}

TEST_F(TensorFilesTest, TheDemoCheckpointHoldsThreeLayers) {
  ASSERT_TRUE(cli::Run(ServerOptions{}, MakeDemoOptions{.directory = Path("")}).ok());
  const std::string file = Path("demo.safetensors");
  EXPECT_THAT(ReadTensor(file + ":ones/query/kernel", "").value().shape, ElementsAre(3, 1, 4));
  EXPECT_THAT(ReadTensor(file + ":ones/out/kernel", "").value().Floats(),
              ElementsAre(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1));
  EXPECT_THAT(ReadTensor(file + ":small/key/kernel", "").value().shape, ElementsAre(256, 4, 64));
  EXPECT_THAT(ReadTensor(file + ":base/out/kernel", "").value().shape, ElementsAre(12, 64, 768));
  EXPECT_THAT(ReadTensor(file + ":base/out/bias", "").value().shape, ElementsAre(768));
}

}  // namespace
}  // namespace attention::cli
