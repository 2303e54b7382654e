#include "server/rpc/attend_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/batching_fakes.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"
#include "tests/testing/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::OnesLayer;
using ::attention::test::StatusIs;
using ::attention::test::WireFloats;

// Stands in for runner and engine: takes the batches from the queue and ends their tasks.
class AttendCallTest : public ::testing::Test {
 protected:
  AttendCallTest() {
    context_ = {.registry = &registry_,
                .unprojected = std::make_shared<const WeightSet>(),
                .queue = &queue_,
                .gate = &gate_,
                .max_message_bytes = 1 << 20,
                .max_inflight_bytes = 1 << 20,
                .num_threads = 1};
  }

  ~AttendCallTest() override { queue_.Close(); }

  // Two queries and two keys, one head of 2.
  static v1::AttendRequest Unprojected() {
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

  static AttendCall Call(const v1::AttendRequest* request, v1::AttendResponse* response,
                         absl::AnyInvocable<void(const absl::Status&)> done) {
    AttendCall call;
    call.request = request;
    call.response = response;
    call.done = std::move(done);
    return call;
  }

  // Of a batch of so many requests.
  static TaskReport Report(int64_t requests) {
    TaskReport report;
    report.batch_requests = requests;
    report.batch_tokens = 2 * requests;
    return report;
  }

  // Versions 1 and 2 of "ones", of which 1 is "stable".
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
  CallGate gate_;
  AttendContext context_;
  v1::AttendRequest request_;
  v1::AttendResponse response_;
  std::optional<absl::Status> status_;
};

TEST_F(AttendCallTest, QueuesRequestsWithoutAWeightSetTogether) {
  Start(Unprojected());
  v1::AttendRequest other_request = Unprojected();
  v1::AttendResponse other_response;
  StartAttend(context_, Call(&other_request, &other_response, [](const absl::Status&) {}));
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->tasks.size(), 2u);
  EXPECT_EQ(batch->weight_set->layer, nullptr);
  const AttentionCall& call = batch->tasks[0]->call;
  EXPECT_EQ(call.tokens, 2);
  EXPECT_EQ(static_cast<const void*>(call.output), response_.output().data().data());
  batch->tasks[0]->done(absl::OkStatus(), Report(2));
  ASSERT_TRUE(status_);
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.weight_set(), "");
  EXPECT_EQ(response_.version(), 0);
  EXPECT_EQ(response_.empty_rows(), 0);
  EXPECT_EQ(response_.timing().batch_tokens(), 4);
  batch->tasks[1]->done(absl::OkStatus(), Report(2));
}

TEST_F(AttendCallTest, TellsHowManyRowsAreEmpty) {
  Start(Unprojected());
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::OkStatus(), Report(1));
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.empty_rows(), 1);
}

TEST_F(AttendCallTest, RefusesEmptyRowsIfAsked) {
  v1::AttendRequest request = Unprojected();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  Start(request);
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::OkStatus(), Report(1));
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "mask: 1 query row sees no key, at [sequence 0, head 0, query 1]; wanted a key for "
                                 "each, since options.empty_rows is ERROR"));
}

TEST_F(AttendCallTest, KeepsAnErrorOfTheComputation) {
  v1::AttendRequest request = Unprojected();
  request.mutable_options()->set_empty_rows(v1::EMPTY_ROWS_ERROR);
  Start(request);
  std::optional<Batch> batch = queue_.Pop();
  ASSERT_TRUE(batch);
  batch->tasks[0]->call.empty_rows->Add({{0, 0, 1}});
  batch->tasks[0]->done(absl::InternalError("oneDNN"), Report(1));
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInternal, "oneDNN"));
}

TEST_F(AttendCallTest, RefusesAVersionOfNoWeightSet) {
  v1::AttendRequest request = Unprojected();
  request.set_version(2);
  Start(request);
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                 "version: 2 without a weight_set, wanted 0 or a weight_set"));
}

TEST_F(AttendCallTest, AnswersAtOnceWhatHasNoElements) {
  v1::AttendRequest request = Unprojected();
  *request.mutable_inputs_q() = WireFloats({0, 1, 2}, {});
  Start(request);
  EXPECT_THAT(*status_, IsOk());
  EXPECT_EQ(response_.output().shape_size(), 3);
  EXPECT_FALSE(response_.has_timing());
}

TEST_F(AttendCallTest, RefusesWhatTakesTooMuchMemoryToCompute) {
  context_.max_inflight_bytes = 100;
  Start(Unprojected());
  EXPECT_THAT(*status_,
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("--max-inflight-bytes allows 100")));
}

TEST_F(AttendCallTest, WantsNoHeadsWithAWeightSet) {
  ServeOnes();
  v1::AttendRequest request = Unprojected();
  request.set_weight_set("ones");
  Start(request);
  EXPECT_THAT(*status_,
              StatusIs(absl::StatusCode::kInvalidArgument, "heads: given with a weight set, wanted without one"));
}

TEST_F(AttendCallTest, TakesTheVersionThatIsAskedFor) {
  ServeOnes();
  struct Case {
    int64_t version;
    std::string alias;
    int64_t taken;
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
    EXPECT_EQ(response_.version(), c.taken);
  }
}

TEST_F(AttendCallTest, DoesNotKnowAnAliasThatIsNotThere) {
  ServeOnes();
  v1::AttendRequest request = Unprojected();
  request.set_weight_set("ones");
  request.set_alias("canary");
  Start(request);
  EXPECT_THAT(*status_, StatusIs(absl::StatusCode::kNotFound, R"(alias: checkpoint "ones" has no alias "canary")"));
}

}  // namespace
}  // namespace attention::server
