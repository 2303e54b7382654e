#include "client/cli/bench/bench_inputs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/testing/matchers.h"

namespace attention::cli {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

BenchOptions Options() {
  BenchOptions options;
  options.weight_set = "w";
  options.batch = 2;
  options.q_length = 3;
  return options;
}

WeightSetInfo Info() {
  WeightSetInfo info;
  info.in_features = 4;
  info.in_k_features = 5;
  info.in_v_features = 6;
  return info;
}

TEST(BenchInputsTest, SelfAttentionHasOneInput) {
  const auto inputs = MakeBenchInputs(Options(), Info());
  ASSERT_THAT(inputs, IsOk());
  const BenchOptions options = Options();
  const BenchRequest request(options, *inputs, 0);
  EXPECT_EQ(request.request().weight_set, "w");
  EXPECT_THAT(request.request().inputs_q.shape, ElementsAre(2, 3, 4));
  EXPECT_EQ(request.request().inputs_q.bytes.size(), 2 * 3 * 4 * sizeof(float));
  EXPECT_FALSE(request.request().inputs_k.has_value());
  EXPECT_FALSE(request.request().inputs_v.has_value());
}

TEST(BenchInputsTest, EachInputHasTheWidthOfItsKernel) {
  BenchOptions options = Options();
  options.kv_length = 7;
  const auto inputs = MakeBenchInputs(options, Info());
  ASSERT_THAT(inputs, IsOk());
  const BenchRequest request(options, *inputs, 0);
  EXPECT_THAT(request.request().inputs_k->shape, ElementsAre(2, 7, 5));
  EXPECT_THAT(request.request().inputs_v->shape, ElementsAre(2, 7, 6));
}

TEST(BenchInputsTest, RandomLengthsAreUniformAndTheSameOnEveryRun) {
  BenchOptions options = Options();
  options.kv_length = 2;
  options.random_lengths = true;
  const auto inputs = MakeBenchInputs(options, Info());
  ASSERT_THAT(inputs, IsOk());
  std::multiset<int64_t> q_lengths, kv_lengths;
  for (int64_t i = 0; i < 3000; ++i) {
    const BenchRequest request(options, *inputs, i), again(options, *inputs, i);
    const TensorRef& q = request.request().inputs_q;
    ASSERT_EQ(q.bytes.size(), 2 * q.shape[1] * 4 * sizeof(float));
    ASSERT_EQ(q.shape, again.request().inputs_q.shape);
    q_lengths.insert(q.shape[1]);
    kv_lengths.insert(request.request().inputs_k->shape[1]);
  }
  EXPECT_THAT(std::vector<size_t>({q_lengths.count(1), q_lengths.count(2), q_lengths.count(3)}),
              ::testing::Each(::testing::AllOf(::testing::Ge(900), ::testing::Le(1100))));
  EXPECT_THAT(std::vector<size_t>({kv_lengths.count(1), kv_lengths.count(2)}),
              ::testing::Each(::testing::AllOf(::testing::Ge(1400), ::testing::Le(1600))));
}

TEST(BenchInputsTest, RefusesInputsLargerThanAMessage) {
  BenchOptions options = Options();
  options.q_length = int64_t{1} << 30;
  EXPECT_THAT(
      MakeBenchInputs(options, Info()),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "--batch, --q-length, --kv-length: expected inputs of less than 2 GiB, got shape [2, 1073741824, 4]"));
}

}  // namespace
}  // namespace attention::cli
