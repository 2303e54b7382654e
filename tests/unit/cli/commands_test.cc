#include "client/cli/commands.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "client/cli/tensor_files.h"
#include "tests/integration/client/fake_attention_server.h"
#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using absl::StatusCode;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::Tensor Floats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

// The reply of a server to one query without projections, inputs_q [[[1]]], inputs_k [[[1]], [[1]]] and values 3 and 5,
// with all requested tensors.
void Answer(const v1::AttendRequest& request, v1::AttendResponse& response) {
  *response.mutable_output() = Floats({1, 1, 1}, {4});
  const v1::AttendOptions& options = request.options();
  if (options.return_attn_weights()) *response.mutable_attn_weights() = Floats({1, 1, 2}, {0.5f, 0.5f});
  if (options.return_mean_attn_weights()) *response.mutable_mean_attn_weights() = Floats({1, 2}, {0.25f, 0.75f});
  if (options.return_log_sum_exp()) *response.mutable_log_sum_exp() = Floats({1, 1}, {1.6931472f});
  if (options.top_k() > 0) {
    const int32_t keys[] = {1, 0};
    v1::Tensor& tensor = *response.mutable_top_keys()->mutable_keys();
    tensor.set_dtype(v1::DATA_TYPE_INT32);
    for (const int64_t size : {1, 1, 2}) tensor.add_shape(size);
    tensor.set_data(keys, sizeof(keys));
    *response.mutable_top_keys()->mutable_weights() = Floats({1, 1, 2}, {0.75f, 0.25f});
  }
  if (!options.return_intermediates()) return;
  v1::Intermediates& lines = *response.mutable_intermediates();
  *lines.mutable_scores() = Floats({1, 1, 2}, {1, 1});
  *lines.mutable_masked_scores() = Floats({1, 1, 2}, {1, 1});
  *lines.mutable_context() = Floats({1, 1, 1}, {4});
}

class CommandsTest : public test::FakeServerTest {
 protected:
  CommandsTest() : folder_(::testing::TempDir() + "cli_commands." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    server_.attention.on_attend = [this](int, auto&, const v1::AttendRequest& request, v1::AttendResponse& response) {
      received_ = request;
      Answer(request, response);
      response.set_empty_rows(empty_rows_);
      return grpc::Status::OK;
    };
  }
  ~CommandsTest() override { std::filesystem::remove_all(folder_); }

  static InputOptions Inputs() {
    InputOptions inputs;
    inputs.inputs_q = "[[[1]]]";
    inputs.inputs_k = "[[[1]], [[1]]]";
    inputs.inputs_v = "[[[3]], [[5]]]";
    inputs.heads = HeadLayout{.num_heads = 1, .axes = HeadAxes::kLengthHeads};
    return inputs;
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  template <typename Command>
  absl::StatusOr<std::string> RunCommand(const Command& command) const {
    return cli::Run(ServerOptions{.address = server_.address()}, command);
  }

  const std::string folder_;
  v1::AttendRequest received_;
  int64_t empty_rows_ = 0;
};

TEST_F(CommandsTest, AttendSendsEveryOption) {
  AttendOptions attend{.inputs = Inputs()};
  InputOptions& inputs = attend.inputs;
  inputs.bias = "[0, -inf]";
  inputs.mask = "[true, false]";
  inputs.causal = Corner::kTopLeft;
  inputs.window = SlidingWindow{.diagonal = 1, .left = 2};
  inputs.kv_lengths = {2};
  inputs.q_lengths = {1};
  inputs.q_segment_ids = "[7]";
  inputs.kv_segment_ids = "[7, 8]";
  inputs.scale = 0.5f;
  inputs.softcap = 3.0f;
  inputs.empty_rows = EmptyRows::kZero;
  inputs.output_dtype = DataType::kFloat16;
  inputs.compute_dtype = DataType::kBFloat16;
  inputs.request_id = "id";
  inputs.priority = 4;
  ASSERT_THAT(RunCommand(attend), IsOk());
  EXPECT_EQ(received_.weight_set(), "");
  EXPECT_EQ(received_.bias().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(received_.mask().dense().dtype(), v1::DATA_TYPE_BOOL);
  EXPECT_EQ(received_.mask().causal().corner(), v1::Diagonal::CORNER_TOP_LEFT);
  EXPECT_EQ(received_.mask().window().diagonal().offset(), 1);
  EXPECT_EQ(received_.mask().window().left(), 2);
  EXPECT_THAT(received_.mask().kv_lengths(), ElementsAre(2));
  EXPECT_THAT(received_.mask().q_lengths(), ElementsAre(1));
  EXPECT_EQ(received_.mask().q_segment_ids().dtype(), v1::DATA_TYPE_INT64);
  EXPECT_THAT(received_.mask().kv_segment_ids().shape(), ElementsAre(2));
  EXPECT_EQ(received_.heads().num_heads(), 1);
  EXPECT_EQ(received_.options().scale(), 0.5f);
  EXPECT_EQ(received_.options().softcap(), 3.0f);
  EXPECT_EQ(received_.options().empty_rows(), v1::EMPTY_ROWS_ZERO);
  EXPECT_EQ(received_.options().output_dtype(), v1::DATA_TYPE_FLOAT16);
  EXPECT_EQ(received_.options().compute_dtype(), v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(received_.request_id(), "id");
  EXPECT_EQ(received_.priority(), 4);
  EXPECT_EQ(received_.options().top_k(), 0);
  EXPECT_FALSE(received_.options().return_attn_weights());
}

TEST_F(CommandsTest, AttendSendsTheVersionOrTheAlias) {
  AttendOptions attend{.inputs = Inputs()};
  attend.inputs.heads.reset();
  attend.inputs.weight_set = "w";
  attend.inputs.which.version = 3;
  ASSERT_THAT(RunCommand(attend), IsOk());
  EXPECT_EQ(received_.version(), 3);
  attend.inputs.which = {.alias = "stable"};
  ASSERT_THAT(RunCommand(attend), IsOk());
  EXPECT_EQ(received_.version(), 0);
  EXPECT_EQ(received_.alias(), "stable");
}

TEST_F(CommandsTest, AttendPrintsTheOutputAndTheTopKeys) {
  EXPECT_THAT(RunCommand(AttendOptions{.inputs = Inputs(), .top_k = 2}).value(),
              StartsWith("[[[4.0]]]\n"
                         "top_keys = [[[1, 0]]]\n"
                         "top_weights = [[[0.75, 0.25]]]\n"
                         "float32 [1, 1, 1] without a weight set in "));
  EXPECT_EQ(received_.options().top_k(), 2);
}

TEST_F(CommandsTest, AttendPrintsTheNumberOfRowsWithoutKeys) {
  EXPECT_THAT(RunCommand(AttendOptions{.inputs = Inputs()}).value(), Not(HasSubstr("no key")));
  empty_rows_ = 1;
  EXPECT_THAT(RunCommand(AttendOptions{.inputs = Inputs()}).value(),
              HasSubstr("\n1 query row (counted per head) sees no key\n"));
  empty_rows_ = 2;
  EXPECT_THAT(RunCommand(AttendOptions{.inputs = Inputs()}).value(),
              HasSubstr("\n2 query rows (counted per head) see no key\n"));
}

TEST_F(CommandsTest, AttendWritesTheRequestedTensors) {
  const std::string file = Path("reply.safetensors");
  ASSERT_THAT(RunCommand(AttendOptions{.inputs = Inputs(),
                                       .output = file,
                                       .attn_weights = file,
                                       .mean_attn_weights = file,
                                       .log_sum_exp = file + ":lse"}),
              IsOk());
  EXPECT_THAT(ReadTensor(file + ":output", "").value().Floats(), ElementsAre(4));
  EXPECT_THAT(ReadTensor(file + ":attn_weights", "").value().Floats(), ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(ReadTensor(file + ":mean_attn_weights", "").value().Floats(), ElementsAre(0.25f, 0.75f));
  EXPECT_THAT(ReadTensor(file + ":lse", "").value().Floats(), ElementsAre(1.6931472f));
}

TEST_F(CommandsTest, NamesTheInputInErrors) {
  AttendOptions attend{.inputs = Inputs()};
  attend.inputs.q_segment_ids = "[1.5]";
  EXPECT_THAT(RunCommand(attend),
              StatusIs(StatusCode::kInvalidArgument, "q_segment_ids: expected an integer, got 1.5"));
}

TEST_F(CommandsTest, ExplainNeedsNoWeightSet) {
  const auto text = RunCommand(ExplainOptions{.inputs = Inputs()});
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(server_.weights.calls, 0);
  EXPECT_TRUE(received_.options().return_intermediates());
  EXPECT_THAT(*text, AllOf(HasSubstr("The formula:\n\n  query  = inputs_q"), HasSubstr("= [4.0]\n   context = [4.0]"),
                           HasSubstr("scores 0, attn_weights 0, context 0\n")));
}

TEST_F(CommandsTest, ExplainDrawsTheWeights) {
  ASSERT_THAT(RunCommand(ExplainOptions{.inputs = Inputs(), .heatmap = Path("map.png")}), IsOk());
  EXPECT_GT(std::filesystem::file_size(Path("map.png")), 100u);
  EXPECT_THAT(RunCommand(ExplainOptions{.inputs = Inputs(), .heatmap = Path("map.txt")}),
              StatusIs(StatusCode::kInvalidArgument, "--heatmap: expected FILE.png, got " + Path("map.txt")));
}

}  // namespace
}  // namespace attention::cli
