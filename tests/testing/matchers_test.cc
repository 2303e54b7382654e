#include "tests/testing/matchers.h"

#include <gtest/gtest.h>

#include <limits>

namespace attention::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor Floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {DataType::kFloat32, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

std::string WhyNot(const Tensor& tensor, const Expected& expected) {
  std::string why;
  EXPECT_FALSE(IsNear(tensor, expected, why));
  return why;
}

TEST(MatchersTest, NearAcceptsDifferencesWithinTheTolerance) {
  EXPECT_THAT(Floats({2}, {1, 200}), Near(Expected{{2}, {1.5, 201}, 0.5, 0.01}));
}

TEST(MatchersTest, NearNamesTheFirstIndexExpectedAndActual) {
  EXPECT_EQ(WhyNot(Floats({1, 2, 2}, {1, 2, 3, 5}), {{1, 2, 2}, {1, 2, 4, 7}, 0.5, 0}),
            "at [0, 1, 0]: expected 4, got 3; 2 of 4 elements are wrong, by up to 2");
}

TEST(MatchersTest, NearDistinguishesShapes) {
  EXPECT_THAT(WhyNot(Floats({2, 1}, {1, 2}), {{1, 2}, {1, 2}}),
              HasSubstr("expected shape [1, 2] with 2 elements, got [2, 1]"));
}

TEST(MatchersTest, NearRejectsMissingElements) {
  EXPECT_THAT(WhyNot(Floats({2}, {1}), {{2}, {1, 2}}), HasSubstr("got [2] with 1"));
}

TEST(MatchersTest, NearMatchesNaNOnlyWithNaN) {
  EXPECT_THAT(Floats({1}, {std::numeric_limits<float>::quiet_NaN()}), Near(Expected{{1}, {kNaN}}));
  EXPECT_THAT(Floats({1}, {0}), Not(Near(Expected{{1}, {kNaN}, 1e9})));
  EXPECT_THAT(Floats({1}, {std::numeric_limits<float>::quiet_NaN()}), Not(Near(Expected{{1}, {0}, 1e9})));
}

TEST(MatchersTest, NearMatchesAnInfinityOnlyWithItself) {
  EXPECT_THAT(Floats({1}, {std::numeric_limits<float>::infinity()}), Near(Expected{{1}, {kInf}}));
  EXPECT_THAT(Floats({1}, {3e38f}), Not(Near(Expected{{1}, {kInf}, 1e9})));
  EXPECT_THAT(Floats({1}, {std::numeric_limits<float>::infinity()}), Not(Near(Expected{{1}, {-kInf}})));
}

TEST(MatchersTest, NearSkipsRowsThatAreNotCompared) {
  EXPECT_THAT(Floats({2, 2}, {1, 2, 9, 9}), Near(Expected{{2, 2}, {1, 2, 3, 4}, 0, 0, {1, 0}}));
  EXPECT_THAT(Floats({2, 2}, {1, 2, 9, 9}), Not(Near(Expected{{2, 2}, {1, 2, 3, 4}, 0, 0, {0, 1}})));
}

TEST(MatchersTest, SameBitsDistinguishesZerosAndTypes) {
  EXPECT_THAT(Floats({2}, {1, 0}), SameBits(Floats({2}, {1, 0})));
  EXPECT_THAT(Floats({2}, {1, 0}), Not(SameBits(Floats({2}, {1, -0.0f}))));
  EXPECT_THAT(Floats({2}, {1, 0}), Not(SameBits(Floats({1, 2}, {1, 0}))));
  Tensor integers = Floats({2}, {1, 0});
  integers.dtype = DataType::kInt32;
  EXPECT_THAT(Floats({2}, {1, 0}), Not(SameBits(integers)));
}

TEST(MatchersTest, ValuesReadsEveryType) {
  EXPECT_THAT(Values({DataType::kBFloat16, {1}, std::string("\x80\x3f", 2)}), ::testing::ElementsAre(1.0));
  EXPECT_THAT(Values({DataType::kFloat16, {1}, std::string("\x00\x3c", 2)}), ::testing::ElementsAre(1.0));
  EXPECT_THAT(Values({DataType::kFloat64, {1}, std::string("\0\0\0\0\0\0\xf0\x3f", 8)}), ::testing::ElementsAre(1.0));
  EXPECT_THAT(Values({DataType::kBool, {2}, std::string("\1\0", 2)}), ::testing::ElementsAre(1.0, 0.0));
  EXPECT_THAT(Values({DataType::kInt32, {1}, std::string("\xff\xff\xff\xff", 4)}), ::testing::ElementsAre(-1.0));
  EXPECT_THAT(Values({DataType::kInt64, {1}, std::string("\2\0\0\0\0\0\0\0", 8)}), ::testing::ElementsAre(2.0));
}

TEST(MatchersTest, StatusMatchersCompareCodeAndMessage) {
  const absl::Status status = absl::NotFoundError("weight_set: no-such-set");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-set")));
  EXPECT_THAT(status, Not(StatusIs(absl::StatusCode::kNotFound, HasSubstr("other"))));
  EXPECT_THAT(status, Not(StatusIs(absl::StatusCode::kInternal, HasSubstr("no-such-set"))));
  EXPECT_THAT(status, Not(IsOk()));
  EXPECT_THAT(absl::StatusOr<int>(3), IsOk());
}

}  // namespace
}  // namespace attention::test
