// What the server loads without a call: at the start, and while it watches the weights folder.

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/running_server.h"
#include "tests/testing/server/uploads.h"

namespace attention::test {
namespace {

using ::testing::HasSubstr;

// OnesLayer with a self-test: the output of a row is the sum of its features.
Parameters WithSelfTest(float output) {
  Parameters parameters = ToParameters(OnesLayer(), "a/");
  parameters.push_back(FloatParameter("a/self_test/inputs_q", {1, 3}, {1, 2, 3}));
  parameters.push_back(FloatParameter("a/self_test/output", {1, 4}, {6, 6, output, 6}));
  return parameters;
}

TEST(ServerWeightsTest, SkipsBrokenCheckpointsUnlessStrict) {
  RunningServerOptions options;
  options.files = {{"good", Serialize(ToParameters(OnesLayer()))}, {"bad", "no checkpoint"}};
  const auto lenient = RunningServer::Start(options);
  ASSERT_THAT(lenient, IsOk());
  EXPECT_THAT((*lenient)->client().GetWeightSet("good"), IsOk());
  options.config.strict_weights = true;
  EXPECT_THAT(RunningServer::Start(options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--strict-weights: cannot load bad: ")));
  options.files.erase("bad");
  EXPECT_THAT(RunningServer::Start(options).status(), IsOk());
}

TEST(ServerWeightsTest, RunsSelfTestsBeforeItServes) {
  const auto running = RunningServer::Start();
  ASSERT_THAT(running, IsOk());
  ASSERT_THAT((*running)->Load("ocr", WithSelfTest(6)), IsOk());
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("self-test of weight set ocr/a: output [0, 2]: expected 7, got 6; the difference 1 exceeds"));
  EXPECT_THAT((*running)->Load("ocr", WithSelfTest(7)), refused);
  EXPECT_THAT(UploadBytes((*running)->client(), "ocr", Serialize(WithSelfTest(7))), refused);
  EXPECT_EQ((*running)->client().GetWeightSet("ocr/a")->version, 1);
}

TEST(ServerWeightsTest, LoadsAFileThatIsAddedWhileItWatches) {
  server::Config config;
  config.watch_weights = true;
  const auto running = RunningServer::Start({.config = config});
  ASSERT_THAT(running, IsOk());
  (*running)->weights_folder().Write("late.safetensors", Serialize(ToParameters(OnesLayer())));
  const absl::Time end = absl::Now() + absl::Minutes(1);
  absl::Status status;
  do {
    status = (*running)->client().GetWeightSet("late").status();
  } while (absl::IsNotFound(status) && absl::Now() < end);
  EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace attention::test
