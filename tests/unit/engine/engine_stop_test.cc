#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/engine.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

using test::IsOk;
using ::testing::Each;

const LayerShape kShape = {24, 24, 24, {3, 3, 8, 8}, 10};

class EngineStopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    layer_ = *Layer::Pack(test::RandomLayer(kShape, 7));
    engine_ = *Engine::Create(2);
  }

  void Compute(const Layer* layer, const std::vector<const AttentionCall*>& calls) {
    ASSERT_THAT(engine_->Compute(layer, calls), IsOk());
  }

  std::vector<float> OutputAlone(const Sizes& sizes, uint32_t seed) {
    OwnedCall call(kShape, sizes, seed);
    Compute(layer_.get(), {&call.call});
    return call.output;
  }

  std::shared_ptr<const Layer> layer_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineStopTest, SkipsAStoppedCallAndKeepsTheBitsOfTheOthers) {
  const Sizes sizes{3, 50, 70};
  StopToken stopped, live;
  stopped.Cancel();
  std::vector<std::unique_ptr<OwnedCall>> calls;
  for (uint32_t seed : {1, 2, 3}) calls.push_back(std::make_unique<OwnedCall>(kShape, sizes, seed));
  calls[0]->call.stop = calls[2]->call.stop = &live;
  calls[1]->call.stop = &stopped;
  Compute(layer_.get(), {&calls[0]->call, &calls[1]->call, &calls[2]->call});
  EXPECT_EQ(calls[0]->output, OutputAlone(sizes, 1));
  EXPECT_THAT(calls[1]->output, Each(0.0f)) << "was computed";
  EXPECT_EQ(calls[2]->output, OutputAlone(sizes, 3));
}

TEST_F(EngineStopTest, GivesTheSameBitsOnTheCallingThread) {
  OwnedCall call(kShape, {2, 130, 300}, 5);
  call.call.cost = Engine::kCallerCost;
  Compute(layer_.get(), {&call.call});
  EXPECT_EQ(call.output, OutputAlone({2, 130, 300}, 5));
}

// A call of one head of one number that takes minutes to compute, by each way through the engine.
struct LongCase {
  std::string name;
  std::function<void(AttentionCall&)> change;
};

class LongCallTest : public EngineStopTest, public ::testing::WithParamInterface<LongCase> {
 protected:
  // How long the call takes if its token is like this.
  absl::Duration TimeOf(const StopToken& stop) {
    call_->call.stop = &stop;
    const absl::Time start = SteadyNow();
    Compute(nullptr, {&call_->call});
    return SteadyNow() - start;
  }

  void SetUp() override {
    EngineStopTest::SetUp();
    GetParam().change(call_->call);
  }

  const LayerShape shape_ = {1, 1, 1, {1, 1, 1, 1}, 1};
  const std::unique_ptr<OwnedCall> call_ =
      std::make_unique<OwnedCall>(shape_, Sizes{.batch = 1, .q_length = 400'000, .kv_length = 400'000}, 1);
};

TEST_P(LongCallTest, EndsAtItsDeadline) {
  const StopToken stop(SteadyNow() + absl::Milliseconds(50));
  EXPECT_LT(TimeOf(stop), absl::Seconds(10));
}

TEST_P(LongCallTest, EndsWhenItIsCancelled) {
  StopToken stop;
  std::thread caller([&] { stop.Cancel(); });
  EXPECT_LT(TimeOf(stop), absl::Seconds(10));
  caller.join();
}

TEST_P(LongCallTest, EndsWhenTheServerStops) {
  std::atomic<bool> server_stops = false;
  const StopToken stop(absl::InfiniteFuture(), &server_stops);
  std::thread server([&] { server_stops = true; });
  EXPECT_LT(TimeOf(stop), absl::Seconds(10));
  server.join();
}

INSTANTIATE_TEST_SUITE_P(Paths, LongCallTest,
                         ::testing::ValuesIn(std::vector<LongCase>{
                             {"FusedExp", [](AttentionCall&) {}},
                             {"BFloat16", [](AttentionCall& call) { call.options.compute_dtype = DType::kBFloat16; }},
                             {"TwoPass", [](AttentionCall& call) { call.options.softcap = 5; }},
                         }),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attention::server
