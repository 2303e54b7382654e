// Splits the keys over several requests, merges the replies, and compares the result with that of one request.

#include <gmock/gmock.h>

#include <random>
#include <vector>

#include "client/merge.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/running_server.h"

namespace attention::test {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kQLength = 5, kKvLength = 9, kHeadDim = 8, kValueDim = 6;

std::vector<float> Random(int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Keys or values of a range of each sequence: [batch, num_kv_heads, length, width].
struct Keys {
  std::vector<float> values;
  std::vector<int64_t> shape;
  TensorRef ref() const { return Float32(values, shape); }
};

Keys Slice(const std::vector<float>& all, int64_t width, int64_t begin, int64_t end) {
  Keys keys{{}, {kBatch, kKvHeads, end - begin, width}};
  for (int64_t head = 0; head < kBatch * kKvHeads; ++head) {
    const auto first = all.begin() + (head * kKvLength + begin) * width;
    keys.values.insert(keys.values.end(), first, first + (end - begin) * width);
  }
  return keys;
}

class ClientShardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto running = RunningServer::Start();
    ASSERT_THAT(running, IsOk());
    running_ = *std::move(running);
  }

  // Attention of all queries over the keys [begin, end). Query i sees key j only if j <= i + 2.
  absl::StatusOr<KeyShard> Attend(int64_t begin, int64_t end) const {
    const Keys key = Slice(key_, kHeadDim, begin, end);
    const Keys value = Slice(value_, kValueDim, begin, end);
    const std::vector<int64_t> q_shape = {kBatch, kHeads, kQLength, kHeadDim};
    absl::StatusOr<AttendReply> reply = running_->client().Attend({
        .inputs_q = Float32(query_, q_shape),
        .inputs_k = key.ref(),
        .inputs_v = value.ref(),
        .mask = CausalMask(2 - begin),
        .heads = HeadLayout{.num_heads = kHeads, .num_kv_heads = kKvHeads, .axes = HeadAxes::kHeadsLength},
        .return_log_sum_exp = true,
    });
    if (!reply.ok()) return reply.status();
    if (!reply->log_sum_exp) return absl::InternalError("no log_sum_exp");
    return KeyShard{std::move(reply->output), *std::move(reply->log_sum_exp)};
  }

  const std::vector<float> query_ = Random(kBatch * kHeads * kQLength * kHeadDim, 1);
  const std::vector<float> key_ = Random(kBatch * kKvHeads * kKvLength * kHeadDim, 2);
  const std::vector<float> value_ = Random(kBatch * kKvHeads * kKvLength * kValueDim, 3);
  std::unique_ptr<RunningServer> running_;
};

// Cut at 4, the first queries see no key of the second shard, whose context is then the mean of its values.
TEST_F(ClientShardsTest, MergesTwoShards) {
  const absl::StatusOr<KeyShard> whole = Attend(0, kKvLength);
  ASSERT_THAT(whole, IsOk());
  for (const int64_t cut : {1, 4, 8}) {
    const absl::StatusOr<KeyShard> first = Attend(0, cut), second = Attend(cut, kKvLength);
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    const absl::StatusOr<KeyShard> merged = MergeKeyShards(*first, *second, HeadAxes::kHeadsLength);
    ASSERT_THAT(merged, IsOk());
    EXPECT_EQ(merged->context.shape, whole->context.shape);
    EXPECT_THAT(merged->context.Floats(), Pointwise(FloatNear(1e-5f), whole->context.Floats())) << cut;
    EXPECT_THAT(merged->log_sum_exp.Floats(), Pointwise(FloatNear(1e-5f), whole->log_sum_exp.Floats())) << cut;
  }
}

TEST_F(ClientShardsTest, MergesShardsOfOneKey) {
  const absl::StatusOr<KeyShard> whole = Attend(0, kKvLength);
  ASSERT_THAT(whole, IsOk());
  absl::StatusOr<KeyShard> merged = Attend(0, 1);
  for (int64_t key = 1; key < kKvLength; ++key) {
    const absl::StatusOr<KeyShard> shard = Attend(key, key + 1);
    ASSERT_THAT(merged, IsOk());
    ASSERT_THAT(shard, IsOk());
    merged = MergeKeyShards(*merged, *shard, HeadAxes::kHeadsLength);
  }
  ASSERT_THAT(merged, IsOk());
  EXPECT_THAT(merged->context.Floats(), Pointwise(FloatNear(1e-5f), whole->context.Floats()));
  EXPECT_THAT(merged->log_sum_exp.Floats(), Pointwise(FloatNear(1e-5f), whole->log_sum_exp.Floats()));
}

}  // namespace
}  // namespace attention::test
