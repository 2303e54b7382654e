#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/rpc/validation/mask_validation.h"
#include "tests/testing/matchers.h"
#include "tests/testing/server/wire.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::attention::test::WireTensor;
using ::testing::ElementsAre;

const Shape kBatch = {2};
const ScoresShape kScores = {.batch = kBatch, .num_heads = 4, .q_length = 3, .kv_length = 2};

template <typename Id>
v1::Tensor Ids(v1::DataType dtype, const Shape& shape, const std::vector<Id>& ids) {
  return WireTensor(dtype, shape, std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)));
}
v1::Tensor Ids32(const Shape& shape, const std::vector<int32_t>& ids) { return Ids(v1::DATA_TYPE_INT32, shape, ids); }
v1::Tensor Ids64(const Shape& shape, const std::vector<int64_t>& ids) { return Ids(v1::DATA_TYPE_INT64, shape, ids); }

v1::Mask QueryIds(const v1::Tensor& q) {
  v1::Mask mask;
  *mask.mutable_q_segment_ids() = q;
  return mask;
}

v1::Mask BothIds(const v1::Tensor& q, const v1::Tensor& kv) {
  v1::Mask mask = QueryIds(q);
  *mask.mutable_kv_segment_ids() = kv;
  return mask;
}

TEST(MaskSegmentsTest, ReadsInt32AndInt64ForEachRowOrForAll) {
  const auto segments =
      CheckSegments(BothIds(Ids32({2, 3}, {1, 1, -2, 3, 3, 3}), Ids64({2}, {int64_t{1} << 40, -2})), kScores, false);
  ASSERT_THAT(segments, IsOk());
  EXPECT_THAT(segments->q, ElementsAre(1, 1, -2, 3, 3, 3));
  EXPECT_THAT(segments->kv, ElementsAre(1099511627776, -2));
  EXPECT_EQ(segments->q_batch_stride, 3);
  EXPECT_EQ(segments->kv_batch_stride, 0);
}

TEST(MaskSegmentsTest, GivesKeysTheIdsOfTheQueriesInSelfAttention) {
  const ScoresShape scores = {.batch = kBatch, .num_heads = 4, .q_length = 3, .kv_length = 3};
  const auto segments = CheckSegments(QueryIds(Ids32({2, 3}, {1, 1, 2, 3, 3, 3})), scores, true);
  ASSERT_THAT(segments, IsOk());
  EXPECT_THAT(segments->kv, ElementsAre(1, 1, 2, 3, 3, 3));
  EXPECT_EQ(segments->kv_batch_stride, 3);

  const auto own = CheckSegments(BothIds(Ids32({3}, {1, 1, 2}), Ids32({3}, {7, 8, 9})), scores, true);
  ASSERT_THAT(own, IsOk());
  EXPECT_THAT(own->kv, ElementsAre(7, 8, 9));
}

TEST(MaskSegmentsTest, FoldsTheBatchAxes) {
  const Shape batch = {2, 1};
  const ScoresShape scores = {.batch = batch, .num_heads = 4, .q_length = 2, .kv_length = 2};
  const auto segments = CheckSegments(QueryIds(Ids32({2, 1, 2}, {1, 2, 3, 4})), scores, true);
  ASSERT_THAT(segments, IsOk());
  EXPECT_THAT(segments->q, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(segments->q_batch_stride, 2);
}

TEST(MaskSegmentsTest, AcceptsEmptyIdsOfAnySize) {
  const Shape batch = {0};
  const ScoresShape scores = {.batch = batch, .num_heads = 1, .q_length = int64_t{1} << 60, .kv_length = 1};
  const auto segments = CheckSegments(BothIds(Ids32({0, int64_t{1} << 60}, {}), Ids32({0, 1}, {})), scores, false);
  ASSERT_THAT(segments, IsOk());
  EXPECT_TRUE(segments->empty());
}

struct BadSegments {
  std::string name;
  v1::Mask mask;
  bool k_is_q;
  std::string message;
};

void PrintTo(const BadSegments& bad, std::ostream* out) { *out << bad.name; }

class BadSegmentsTest : public ::testing::TestWithParam<BadSegments> {};

TEST_P(BadSegmentsTest, NamesFieldExpectedAndActual) {
  EXPECT_THAT(CheckSegments(GetParam().mask, kScores, GetParam().k_is_q),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

v1::Mask KeyIds(const v1::Tensor& kv) {
  v1::Mask mask;
  *mask.mutable_kv_segment_ids() = kv;
  return mask;
}

const v1::Tensor kGoodQ = Ids32({3}, {1, 1, 2});

INSTANTIATE_TEST_SUITE_P(
    Ids, BadSegmentsTest,
    ::testing::Values(
        BadSegments{"QueriesAlone", QueryIds(kGoodQ), false,
                    "mask.kv_segment_ids: expected ids because mask.q_segment_ids and inputs_k are set, got none"},
        BadSegments{"KeysAlone", KeyIds(kGoodQ), false,
                    "mask.q_segment_ids: expected ids because mask.kv_segment_ids is set, got none"},
        BadSegments{"KeysAloneInSelfAttention", KeyIds(kGoodQ), true,
                    "mask.q_segment_ids: expected ids because mask.kv_segment_ids is set, got none"},
        BadSegments{"Floats", QueryIds(WireTensor(v1::DATA_TYPE_FLOAT32, {3}, std::string(12, '\0'))), true,
                    "mask.q_segment_ids: expected dtype int32 or int64, got float32"},
        BadSegments{"Bools", BothIds(kGoodQ, WireTensor(v1::DATA_TYPE_BOOL, {2}, std::string(2, '\0'))), false,
                    "mask.kv_segment_ids: expected dtype int32 or int64, got bool"},
        BadSegments{"LengthOfTheOther", BothIds(kGoodQ, kGoodQ), false,
                    "mask.kv_segment_ids: expected shape [2, 2] or [2] for all rows, got [3]"},
        BadSegments{"OneRowForTwo", QueryIds(Ids32({1, 3}, {1, 1, 2})), true,
                    "mask.q_segment_ids: expected shape [2, 3] or [3] for all rows, got [1, 3]"},
        BadSegments{"TooFewBytes", QueryIds(WireTensor(v1::DATA_TYPE_INT64, {3}, std::string(12, '\0'))), true,
                    "mask.q_segment_ids: expected 24 bytes for shape [3] of int64, got 12"}),
    [](const auto& info) { return info.param.name; });

TEST(MaskSegmentsTest, ExpectsOneShapeWithoutBatchAxes) {
  const ScoresShape scores = {.batch = {}, .num_heads = 4, .q_length = 3, .kv_length = 3};
  EXPECT_THAT(CheckSegments(QueryIds(Ids32({2}, {1, 1})), scores, true),
              StatusIs(absl::StatusCode::kInvalidArgument, "mask.q_segment_ids: expected shape [3], got [2]"));
}

}  // namespace
}  // namespace attention::server
