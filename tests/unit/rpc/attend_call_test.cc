#include "server/rpc/attend_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/batching_fakes.h"
#include "tests/testing/server/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::OnesLayer;
using ::attention::test::StatusIs;
using ::attention::test::WireFloats;

// Takes the batches from the queue and ends their tasks, in place of a runner and an engine.
class AttendCallTest : public ::testing::Test {
 protected:
  AttendCallTest() {
    context_ = {.registry = &registry_,
                .no_weight_set = std::make_shared<const WeightSet>(),
                .queue = &queue_,
                .admission = &admission_,
                .max_message_bytes = 1 << 20,
                .num_threads = 1};
  }

  ~AttendCallTest() override { queue_.Close(); }

  // Two queries and two keys, one head of 2.
  static v1::AttendRequest WithoutWeightSet() {
    v1::AttendRequest request;
    request.mutable_heads()->set_num_heads(1);
    request.mutable_heads()->set_axes(v1::HeadLayout::AXES_LENGTH_HEADS);
    *request.mutable_inputs_q() = WireFloats({2, 1, 2}, {1, 2, 3, 4});
    return request;
  }

  void Start(const v1::AttendRequest& request) {
    request_ = request;
    StartAttend(context_, Call(&request_, &response_, [this](const absl::Status& status) { status_ = status; }));
  }

  AttendCall Call(const v1::AttendRequest* request, v1::AttendResponse* response,
                  absl::AnyInvocable<void(const absl::Status&)> done) {
    ticket_ = *context_.admission->Enter(std::min<int64_t>(RequestBytes(*request), context_.admission->max_bytes()));
    AttendCall call;
    call.request = request;
    call.response = response;
    call.ticket = &ticket_;
    call.stop = &stop_;
    call.done = std::move(done);
    return call;
  }

  // The report of a batch of `requests` requests.
  static TaskReport Report(int64_t requests) {
    TaskReport report;
    report.batch_requests = requests;
    report.batch_tokens = 2 * requests;
    return report;
  }

  // Serves versions 1 and 2 of "ones". The alias "stable" is version 1.
  void ServeOnes() {
    ServedCheckpoint served{{}, {{"stable", 1}}};
    for (const int64_t version : {1, 2}) {
      auto ones = std::make_shared<WeightSet>();
      ones->name = ones->checkpoint = "ones";
      ones->version = version;
      ones->layer = *Layer::Pack(OnesLayer());
      served.versions[version].push_back(std::move(ones));
    }
    ASSERT_THAT(registry_.Serve("ones", std::move(served)), IsOk());
  }

  Registry registry_;
  BatchQueue queue_{{}};
  Admission admission_{1 << 20};
  Ticket ticket_;
  StopToken stop_;
  AttendContext context_;
  v1::AttendRequest request_;
  v1::AttendResponse response_;
  std::optional<absl::Status> status_;
};

TEST_F(AttendCallTest, QueuesRequestsWithoutAWeightSetTogether) {
  Start(WithoutWeightSet());
  v1::AttendRequest other_request = WithoutWeightSet();
  v1::AttendResponse other_response;
  StartAttend(context_, Call(&other_request, &other_response, [](const absl::Status&) {}));
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->tasks.size(), 2u);
  EXPECT_EQ(batch->weight_set->layer, nullptr);
  const AttentionCall& call = batch->tasks[0]->call;
  EXPECT_EQ(call.tokens, 2);
  EXPECT_EQ(static_cast<const void*>(call.output.data), response_.output().data().data());
  batch->tasks[0]->done(absl::OkStatus(), Report(2));
  ASSERT_TRUE(status_);
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.weight_set(), "");
  EXPECT_EQ(response_.version(), 0);
  EXPECT_EQ(response_.empty_rows(), 0);
  EXPECT_EQ(response_.timing().batch_tokens(), 4);
  batch->tasks[1]->done(absl::OkStatus(), Report(2));
}

TEST_F(AttendCallTest, RefusesToAnswerAFiniteRequestWithANumberThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto end = [this](const v1::AttendRequest& request) {
    response_.Clear();
    Start(request);
    std::optional<Batch> batch = queue_.Pop();
    batch->tasks[0]->call.non_finite->Add(FormulaTensor::kContext);
    batch->tasks[0]->done(absl::OkStatus(), Report(1));
    return *status_;
  };
  const auto out_of_range =
      StatusIs(absl::StatusCode::kOutOfRange, "output: expected numbers within the range of float32, got a larger one");
  v1::AttendRequest request = WithoutWeightSet();
  EXPECT_THAT(end(request), out_of_range);
  *request.mutable_bias() = WireFloats({2}, {0, -kInfinity});  // hides a key
  EXPECT_THAT(end(request), out_of_range);
  *request.mutable_bias() = WireFloats({2}, {0, kInfinity});
  EXPECT_THAT(end(request), IsOk());
  request = WithoutWeightSet();
  *request.mutable_inputs_q() = WireFloats({2, 1, 2}, {1, 2, 3, kInfinity});
  EXPECT_THAT(end(request), IsOk());
}

TEST_F(AttendCallTest, ReportsTheNumberOfEmptyRows) {
  Start(WithoutWeightSet());
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::OkStatus(), Report(1));
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.empty_rows(), 1);
}

TEST_F(AttendCallTest, RejectsEmptyRowsUnderErrorRule) {
  v1::AttendRequest request = WithoutWeightSet();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  Start(request);
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::OkStatus(), Report(1));
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "mask: expected a visible key for every query row because options.empty_rows is "
                                 "ERROR, got 1 row without one at [sequence 0, head 0, query 1]"));
}

TEST_F(AttendCallTest, KeepsTheErrorOfTheComputation) {
  v1::AttendRequest request = WithoutWeightSet();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  Start(request);
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::InternalError("oneDNN"), Report(1));
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInternal, "oneDNN"));
}

TEST_F(AttendCallTest, RejectsAVersionWithoutAWeightSet) {
  v1::AttendRequest request = WithoutWeightSet();
  request.set_version(2);
  Start(request);
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "version: expected 0 in a request without weight_set, got 2"));
}

TEST_F(AttendCallTest, AnswersAnEmptyRequestAtOnce) {
  v1::AttendRequest request = WithoutWeightSet();
  *request.mutable_inputs_q() = WireFloats({0, 1, 2}, {});
  Start(request);
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.output().shape_size(), 3);
  EXPECT_FALSE(response_.has_timing());
}

TEST_F(AttendCallTest, RejectsTooMuchWorkingMemory) {
  Admission small(100);
  context_.admission = &small;
  Start(WithoutWeightSet());
  ticket_ = Ticket();
  EXPECT_THAT(*status_,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr(
                           "request: expected at most 100 bytes of working memory (--max-inflight-bytes), got ")));
}

TEST_F(AttendCallTest, ReservesTheReplyUntilTheTicketIsGivenBack) {
  Start(WithoutWeightSet());
  const int64_t message = RequestBytes(request_);
  EXPECT_EQ(admission_.stats().bytes, message + 16) << "two rows of two float32";
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->done(absl::OkStatus(), Report(1));
  EXPECT_EQ(admission_.stats().bytes, message + 16) << "the reply is not sent yet";
  ticket_ = Ticket();
  EXPECT_EQ(admission_.stats().bytes, 0);
}

TEST_F(AttendCallTest, RejectsARequestThatCostsTooMuch) {
  context_.max_request_cost = 1000;
  Start(WithoutWeightSet());
  EXPECT_THAT(*status_,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr(
                           "request: expected a cost of at most 1000 multiply-adds (--max-request-cost), got ")));
  EXPECT_EQ(admission_.stats().bytes, RequestBytes(request_)) << "nothing else is reserved or allocated for it";
}

TEST_F(AttendCallTest, CountsUnknownFieldsAndListsAsMemoryOfTheRequest) {
  v1::AttendRequest request = WithoutWeightSet();
  const int64_t bytes = RequestBytes(request);
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(1000, std::string(100'000, 'x'));
  EXPECT_GE(RequestBytes(request), bytes + 100'000);
  request.clear_mask();
  for (int i = 0; i < 1000; ++i) request.mutable_mask()->add_kv_lengths(1);
  EXPECT_GE(RequestBytes(request), bytes + 100'000 + 1000 * (8 + static_cast<int64_t>(sizeof(SequenceLimits))));
}

TEST_F(AttendCallTest, RejectsHeadsWithAWeightSet) {
  ServeOnes();
  v1::AttendRequest request = WithoutWeightSet();
  request.set_weight_set("ones");
  Start(request);
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "heads: expected none in a request with weight_set, got a head layout"));
}

TEST_F(AttendCallTest, UsesTheRequestedVersion) {
  ServeOnes();
  struct Case {
    int64_t version;
    std::string alias;
    int64_t used;
  };
  for (const Case& c : std::vector<Case>{{0, "", 2}, {1, "", 1}, {0, "stable", 1}}) {
    v1::AttendRequest request;
    request.set_weight_set("ones");
    request.set_version(c.version);
    request.set_alias(c.alias);
    *request.mutable_inputs_q() = WireFloats({0, 3}, {});
    response_.Clear();
    Start(request);
    EXPECT_THAT(*status_, IsOk());
    EXPECT_EQ(response_.version(), c.used);
  }
}

TEST_F(AttendCallTest, RejectsAnUnknownAlias) {
  ServeOnes();
  v1::AttendRequest request = WithoutWeightSet();
  request.set_weight_set("ones");
  request.set_alias("canary");
  Start(request);
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kNotFound, R"(alias: checkpoint "ones" has no alias "canary")"));
}

}  // namespace
}  // namespace attention::server
