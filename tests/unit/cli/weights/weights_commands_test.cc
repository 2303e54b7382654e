// `attentionctl weights` against a fake server.

#include <gmock/gmock.h>

#include "client/cli/commands.h"
#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WeightsCommandsTest : public test::FakeServerTest {
 protected:
  WeightsCommandsTest() {
    server_.weights.info.set_name("ocr/layer0");
    server_.weights.info.set_version(9);
    server_.weights.on_upload = [this](test::UploadReader& reader, v1::LoadCheckpointResponse& response) {
      v1::UploadCheckpointRequest part;
      if (reader.Read(&part)) header_ = part.header();
      while (reader.Read(&part)) continue;
      *response.add_weight_sets() = server_.weights.info;
      response.set_checkpoint(header_.checkpoint());
      response.set_version(9);
      response.set_format("safetensors");
      response.set_sha256(header_.sha256());
      return grpc::Status::OK;
    };
  }

  template <typename Command>
  absl::StatusOr<std::string> RunCommand(const Command& command) const {
    return cli::Run(ServerOptions{.address = server_.address()}, command);
  }

  v1::UploadHeader header_;
  test::TemporaryFolder folder_;
};

TEST_F(WeightsCommandsTest, UploadNamesTheCheckpointAsTheFile) {
  folder_.Write("ocr.v2.safetensors", "abc");
  const std::string file = (folder_.path() / "ocr.v2.safetensors").string();
  const auto text = RunCommand(UploadOptions{.file = file, .num_heads = 8});
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(header_.checkpoint(), "ocr.v2");
  EXPECT_EQ(header_.bytes(), 3);
  EXPECT_EQ(header_.num_heads(), 8);
  EXPECT_THAT(*text, StartsWith("loaded checkpoint ocr.v2, version 9 (safetensors, sha256 "
                                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad)\n"));
  EXPECT_THAT(*text, HasSubstr("\nocr/layer0        9"));
  ASSERT_THAT(RunCommand(UploadOptions{.file = file, .checkpoint = "shop/ocr"}), IsOk());
  EXPECT_EQ(header_.checkpoint(), "shop/ocr");
}

TEST_F(WeightsCommandsTest, UploadReturnsTheErrorOfTheServer) {
  server_.weights.on_upload = [](auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "header length is wrong");
  };
  folder_.Write("ocr.npz", "abc");
  EXPECT_THAT(RunCommand(UploadOptions{.file = (folder_.path() / "ocr.npz").string()}),
              StatusIs(absl::StatusCode::kInvalidArgument, "header length is wrong"));
}

TEST_F(WeightsCommandsTest, LoadListsWeightSetsAndUnusedTensors) {
  const auto text = RunCommand(LoadOptions{.checkpoint = "ocr", .num_heads = 4, .replace = true});
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(server_.weights.num_heads, 4);
  EXPECT_TRUE(server_.weights.replace);
  EXPECT_THAT(*text, StartsWith("loaded checkpoint ocr, version "));
  EXPECT_THAT(*text, HasSubstr("1 tensor belongs to no attention layer: step\n"));
}

TEST_F(WeightsCommandsTest, ListAndShowSendTheirArguments) {
  EXPECT_THAT(RunCommand(ListOptions{.prefix = "ocr/"}).value(), HasSubstr("ocr/layer0"));
  EXPECT_EQ(server_.weights.last_name, "ocr/");
  EXPECT_THAT(RunCommand(ShowOptions{.name = "ocr/layer0", .which = {.alias = "stable"}}).value(),
              StartsWith("ocr/layer0, version 9, "));
  EXPECT_EQ(server_.weights.last_name, "ocr/layer0");
  EXPECT_EQ(server_.weights.last_alias, "stable");
}

TEST_F(WeightsCommandsTest, UnloadAndDeleteNameTheVersions) {
  EXPECT_EQ(RunCommand(UnloadOptions{.checkpoint = "ocr"}).value(), "unloaded checkpoint ocr, version 9\n");
  EXPECT_EQ(RunCommand(DeleteOptions{.checkpoint = "ocr", .version = 7}).value(),
            "deleted versions 9, 10 of checkpoint ocr\n"
            "removed the file ocr.npz from the weights folder\n"
            "the file ocr.msgpack in the weights folder could not be removed; it is not loaded again\n");
  EXPECT_EQ(server_.weights.last_version, 7);
}

TEST_F(WeightsCommandsTest, AliasPrintsTheNewAndThePreviousVersion) {
  const AliasChange set{.checkpoint = "ocr", .alias = "stable", .version = 3, .expected_version = 9};
  EXPECT_EQ(RunCommand(AliasOptions{set}).value(),
            "alias stable of checkpoint ocr points to version 3; it pointed to version 9 before\n");
  EXPECT_EQ(server_.weights.set_alias.expected_version(), 9);
  server_.weights.info.set_version(0);
  const AliasChange remove{.checkpoint = "ocr", .alias = "stable"};
  EXPECT_EQ(RunCommand(AliasOptions{remove}).value(), "alias stable of checkpoint ocr does not exist\n");
}

}  // namespace
}  // namespace attention::cli
