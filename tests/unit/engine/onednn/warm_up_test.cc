#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include <memory>
#include <random>
#include <vector>

#include "server/engine/engine.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"
#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

using test::IsOk;

// Captures oneDNN's log of the primitives that it creates during the lifetime of the object.
class OnednnLog {
 public:
  OnednnLog() {
    testing::internal::CaptureStdout();
    dnnl_set_verbose(2);
  }
  std::string Take() {
    dnnl_set_verbose(0);
    return testing::internal::GetCapturedStdout();
  }
};

TEST(WarmUpTest, CompilesEverythingForRequestsOfAnyLength) {
  const LayerShape shape{40, 40, 24, {6, 3, 10, 14}, 50};
  auto layer = Layer::Pack(test::RandomLayer(shape, 1));
  ASSERT_THAT(layer, IsOk());
  auto engine = Engine::Create(2);
  ASSERT_THAT(engine, IsOk());
  std::mt19937 random(1);
  OnednnLog log;
  for (int i = 0; i < 60; ++i) {
    const auto length = [&] { return static_cast<int64_t>(1 + random() % (i % 10 == 0 ? 1500 : 300)); };
    OwnedCall call(shape, {1, length(), length(), false, i % 5 == 0, true}, i);
    if (i % 4 == 0) call.call.options.compute_dtype = DType::kBFloat16;
    if (i % 7 == 0) call.call.options.softcap = 20;
    if (i % 3 == 0) {
      call.call.mask.limits = {
          {.q_length = call.call.shape.q_length, .kv_length = call.call.shape.kv_length, .last_offset = 0}};
    }
    const AttentionCall* pointer = &call.call;
    EXPECT_THAT((*engine)->Compute(layer->get(), {&pointer, 1}), IsOk());
  }
  const std::string created = log.Take();
  EXPECT_THAT(created, testing::HasSubstr("create:cache_hit"));
  EXPECT_THAT(created, testing::Not(testing::HasSubstr("create:cache_miss")));
}

}  // namespace
}  // namespace attention::server
