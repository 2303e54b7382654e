#include "client/mask.h"

#include <gmock/gmock.h>

#include <vector>

#include "client/internal/conversion.h"
#include "tests/testing/matchers.h"

namespace attention {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

// One mask for each part, with only that part set.
class ClientMaskTest : public ::testing::Test {
 protected:
  const std::vector<int64_t> shape_ = {2};
  const std::vector<int64_t> lengths_ = {1, 2};
  const std::vector<int32_t> ids_ = {5, 6};
  const std::vector<uint8_t> visible_ = {0, 1};

  struct Part {
    const char* name;
    Mask mask;
  };
  const std::vector<Part> parts_ = {{"dense", DenseMask(Bool(visible_, shape_))},
                                    {"causal", CausalMask(Corner::kTopLeft)},
                                    {"window", WindowMask(Corner::kBottomRight, 3, 0)},
                                    {"kv_lengths", LengthMask(lengths_)},
                                    {"q_lengths", LengthMask({}, lengths_)},
                                    {"q_segment_ids", SegmentMask(Int32(ids_, shape_))},
                                    {"kv_segment_ids", {.kv_segment_ids = Int32(ids_, shape_)}}};
};

std::string Encoded(const Mask& mask) { return ToProto({.mask = mask}).mask().SerializeAsString(); }

TEST_F(ClientMaskTest, EachFunctionSetsItsPart) {
  EXPECT_EQ(Encoded(DenseMask(Bool(visible_, shape_))), Encoded({.dense = Bool(visible_, shape_)}));
  EXPECT_EQ(Encoded(CausalMask(7)), Encoded({.causal = 7}));
  EXPECT_EQ(Encoded(WindowMask(Corner::kTopLeft, 3, -1)),
            Encoded({.window = SlidingWindow{.diagonal = Corner::kTopLeft, .left = 3}}));
  EXPECT_EQ(Encoded(LengthMask(lengths_, shape_)), Encoded({.kv_lengths = lengths_, .q_lengths = shape_}));
  const TensorRef ids = Int32(ids_, shape_);
  EXPECT_EQ(Encoded(SegmentMask(ids)), Encoded({.q_segment_ids = ids}));
  EXPECT_EQ(Encoded(SegmentMask(ids, ids)), Encoded({.q_segment_ids = ids, .kv_segment_ids = ids}));
}

TEST_F(ClientMaskTest, AndKeepsThePartsOfBothMasks) {
  Mask all;
  for (const Part& part : parts_) {
    const absl::StatusOr<Mask> both = And(all, part.mask);
    ASSERT_THAT(both, IsOk()) << part.name;
    all = *both;
  }
  EXPECT_EQ(all.dense->bytes.data(), reinterpret_cast<const char*>(visible_.data()));
  EXPECT_EQ(std::get<Corner>(*all.causal), Corner::kTopLeft);
  EXPECT_EQ(std::get<Corner>(all.window->diagonal), Corner::kBottomRight);
  EXPECT_EQ(all.window->left, 3);
  EXPECT_EQ(all.window->right, 0);
  EXPECT_THAT(all.kv_lengths, ElementsAre(1, 2));
  EXPECT_THAT(all.q_lengths, ElementsAre(1, 2));
  EXPECT_TRUE(all.q_segment_ids.has_value());
  EXPECT_TRUE(all.kv_segment_ids.has_value());
}

TEST_F(ClientMaskTest, AndRefusesAPartThatBothMasksSet) {
  for (const Part& part : parts_) {
    EXPECT_THAT(And(part.mask, part.mask),
                StatusIs(absl::StatusCode::kInvalidArgument, std::string("mask.") + part.name + ": both masks set it"));
  }
}

}  // namespace
}  // namespace attention
