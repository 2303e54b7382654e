#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "server/rpc/validation/mask_validation.h"
#include "tests/testing/matchers.h"

namespace attention::server {

// Used by the matchers.
bool operator==(const SequenceLimits& a, const SequenceLimits& b) {
  return a.q_length == b.q_length && a.kv_length == b.kv_length && a.first_offset == b.first_offset &&
         a.last_offset == b.last_offset;
}
void PrintTo(const SequenceLimits& limits, std::ostream* out) {
  *out << "{" << limits.q_length << ", " << limits.kv_length << ", " << limits.first_offset << ", "
       << limits.last_offset << "}";
}

namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kFar = int64_t{1} << 60;
constexpr int64_t kAll = kUnbounded;

const Shape kBatch = {3};
const ScoresShape kScores = {.batch = kBatch, .num_heads = 2, .q_length = 5, .kv_length = 8};

v1::Diagonal At(int64_t offset) {
  v1::Diagonal diagonal;
  diagonal.set_offset(offset);
  return diagonal;
}

v1::Diagonal At(v1::Diagonal::Corner corner) {
  v1::Diagonal diagonal;
  diagonal.set_corner(corner);
  return diagonal;
}

const v1::Diagonal kTopLeft = At(v1::Diagonal::CORNER_TOP_LEFT);
const v1::Diagonal kBottomRight = At(v1::Diagonal::CORNER_BOTTOM_RIGHT);

struct Window {
  v1::Diagonal diagonal;
  std::optional<int64_t> left, right;
};

struct LimitsCase {
  std::string name;
  std::optional<v1::Diagonal> causal;
  std::optional<Window> window;
  std::vector<int64_t> kv_lengths, q_lengths;
  std::vector<SequenceLimits> limits;  // {q_length, kv_length, first_offset, last_offset}
};

void PrintTo(const LimitsCase& limits, std::ostream* out) { *out << limits.name; }

v1::Mask MaskOf(const LimitsCase& limits) {
  v1::Mask mask;
  if (limits.causal) *mask.mutable_causal() = *limits.causal;
  if (limits.window) {
    *mask.mutable_window()->mutable_diagonal() = limits.window->diagonal;
    if (limits.window->left) mask.mutable_window()->set_left(*limits.window->left);
    if (limits.window->right) mask.mutable_window()->set_right(*limits.window->right);
  }
  mask.mutable_kv_lengths()->Add(limits.kv_lengths.begin(), limits.kv_lengths.end());
  mask.mutable_q_lengths()->Add(limits.q_lengths.begin(), limits.q_lengths.end());
  return mask;
}

class MaskLimitsTest : public ::testing::TestWithParam<LimitsCase> {};

TEST_P(MaskLimitsTest, NarrowsEachSequence) {
  const auto limits = CheckLimits(MaskOf(GetParam()), kScores);
  ASSERT_THAT(limits, IsOk());
  EXPECT_THAT(*limits, ElementsAreArray(GetParam().limits));
}

// A batch of 3 with 5 queries and 8 keys.
const LimitsCase kCases[] = {
    {"Nothing", {}, {}, {}, {}, {}},

    {"TopLeft", kTopLeft, {}, {}, {}, {{5, 8, -kAll, 0}}},
    {"BottomRight", kBottomRight, {}, {}, {}, {{5, 8, -kAll, 3}}},
    {"Offset", At(2), {}, {}, {}, {{5, 8, -kAll, 2}}},
    {"NegativeOffset", At(-2), {}, {}, {}, {{5, 8, -kAll, -2}}},
    {"OffsetOfZero", At(0), {}, {}, {}, {{5, 8, -kAll, 0}}},

    {"KvLengths", {}, {}, {8, 0, 3}, {}, {{5, 8}, {5, 0}, {5, 3}}},
    {"QLengths", {}, {}, {}, {5, 0, 2}, {{5, 8}, {0, 8}, {2, 8}}},
    {"BothLengths", {}, {}, {8, 7, 6}, {3, 4, 5}, {{3, 8}, {4, 7}, {5, 6}}},
    {"EqualLengths", {}, {}, {6, 6, 6}, {4, 4, 4}, {{4, 6}}},
    {"LengthsThatHideNothing", {}, {}, {8, 8, 8}, {5, 5, 5}, {}},
    {"EqualLengthsExceptOne", {}, {}, {8, 8, 8}, {5, 5, 4}, {{5, 8}, {5, 8}, {4, 8}}},

    {"TopLeftKvLengths", kTopLeft, {}, {8, 2, 0}, {}, {{5, 8, -kAll, 0}, {5, 2, -kAll, 0}, {5, 0, -kAll, 0}}},
    {"TopLeftEqualLengths", kTopLeft, {}, {6, 6, 6}, {}, {{5, 6, -kAll, 0}}},
    {"BottomRightKvLengths", kBottomRight, {}, {8, 2, 0}, {}, {{5, 8, -kAll, 3}, {5, 2, -kAll, -3}, {5, 0, -kAll, -5}}},
    {"BottomRightQLengths", kBottomRight, {}, {}, {5, 1, 0}, {{5, 8, -kAll, 3}, {1, 8, -kAll, 7}, {0, 8, -kAll, 8}}},
    {"BottomRightBothLengths",
     kBottomRight,
     {},
     {8, 2, 4},
     {1, 2, 4},
     {{1, 8, -kAll, 7}, {2, 2, -kAll, 0}, {4, 4, -kAll, 0}}},
    {"BottomRightEqualLengths", kBottomRight, {}, {6, 6, 6}, {2, 2, 2}, {{2, 6, -kAll, 4}}},

    {"WindowTopLeft", {}, Window{kTopLeft, 2, 1}, {}, {}, {{5, 8, -2, 1}}},
    {"WindowBottomRight", {}, Window{kBottomRight, 2, 1}, {}, {}, {{5, 8, 1, 4}}},
    {"WindowOffset", {}, Window{At(-4), 2, 1}, {}, {}, {{5, 8, -6, -3}}},
    {"WindowLeftAlone", {}, Window{kTopLeft, 2, {}}, {}, {}, {{5, 8, -2, kAll}}},
    {"WindowRightAlone", {}, Window{kTopLeft, {}, 2}, {}, {}, {{5, 8, -kAll, 2}}},
    {"WindowOfOneKey", {}, Window{kTopLeft, 0, 0}, {}, {}, {{5, 8, 0, 0}}},
    {"WindowOfMinusOne", {}, Window{kTopLeft, -1, -1}, {}, {}, {}},
    {"WindowThatHidesNothing", {}, Window{kBottomRight, {}, {}}, {}, {}, {}},
    {"WindowBottomRightLengths",
     {},
     Window{kBottomRight, 1, 0},
     {8, 5, 4},
     {5, 5, 1},
     {{5, 8, 2, 3}, {5, 5, -1, 0}, {1, 4, 2, 3}}},

    {"CausalCutsTheWindow", kTopLeft, Window{kTopLeft, 2, 1}, {}, {}, {{5, 8, -2, 0}}},
    {"WindowCutsCausal", kBottomRight, Window{kTopLeft, 2, 1}, {}, {}, {{5, 8, -2, 1}}},
    {"WindowAfterCausal", At(-3), Window{kTopLeft, 1, 1}, {}, {}, {{5, 8, -1, -3}}},
    {"TwoDiagonalsAndLengths",
     kTopLeft,
     Window{kBottomRight, 1, 1},
     {8, 5, 4},
     {},
     {{5, 8, 2, 0}, {5, 5, -1, 0}, {5, 4, -2, 0}}},

    {"FarthestOffset", At(kMax), {}, {}, {}, {{5, 8, -kAll, kFar}}},
    {"FarthestNegativeOffset", At(kMin), {}, {}, {}, {{5, 8, -kAll, -kFar}}},
    {"WidestWindow", {}, Window{kTopLeft, kMax, kMax}, {}, {}, {{5, 8, -kFar, kFar}}},
    {"WidestWindowFarAfter", {}, Window{At(kMax), kMax, kMax}, {}, {}, {{5, 8, 0, kFar}}},
    {"WidestWindowFarBefore", {}, Window{At(kMin), kMax, kMax}, {}, {}, {{5, 8, -kFar, -1}}},
    // Each number alone exceeds every length, and so does their difference.
    {"FarWindow", {}, Window{At(kMax), kMax / 2, 0}, {}, {}, {{5, 8, kFar, kFar}}},
};

INSTANTIATE_TEST_SUITE_P(Parts, MaskLimitsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// Adding a query index to a clamped offset cannot overflow, even for the farthest diagonals.
TEST(MaskLimitsTest, KeepsFarOffsetsAddable) {
  const auto limits = CheckLimits(MaskOf({"", At(kMax), Window{At(kMin), kMax, kMax}, {}, {}, {}}), kScores);
  ASSERT_THAT(limits, IsOk());
  EXPECT_TRUE((*limits)[0].RangeOf(0).empty());
  EXPECT_EQ((*limits)[0].RangeOf(3).size(), 3);
}

struct BadLimits {
  std::string name;
  std::function<void(v1::Mask&)> mutate;
  std::string message;
};

void PrintTo(const BadLimits& bad, std::ostream* out) { *out << bad.name; }

class BadLimitsTest : public ::testing::TestWithParam<BadLimits> {};

TEST_P(BadLimitsTest, NamesPartExpectedAndActual) {
  v1::Mask mask;
  GetParam().mutate(mask);
  EXPECT_THAT(CheckLimits(mask, kScores), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

BadLimits BadLengths(std::string name, const std::vector<int64_t>& kv, const std::vector<int64_t>& q,
                     std::string message) {
  return {std::move(name), [=](v1::Mask& mask) { mask = MaskOf({"", {}, {}, kv, q, {}}); }, std::move(message)};
}

INSTANTIATE_TEST_SUITE_P(
    Parts, BadLimitsTest,
    ::testing::Values(
        BadLengths("TooFewKvLengths", {1, 2}, {},
                   "mask.kv_lengths: expected 3 lengths, one for each row of the batch, got 2"),
        BadLengths("TooManyQLengths", {}, {1, 2, 3, 4},
                   "mask.q_lengths: expected 3 lengths, one for each row of the batch, got 4"),
        BadLengths("KvLengthTooLarge", {8, 9, 0}, {}, "mask.kv_lengths[1]: expected 0 to kv_length 8, got 9"),
        BadLengths("QLengthNegative", {8, 8, 8}, {5, 5, -1}, "mask.q_lengths[2]: expected 0 to q_length 5, got -1"),
        BadLengths("QLengthMeantForKeys", {}, {8, 5, 5}, "mask.q_lengths[0]: expected 0 to q_length 5, got 8"),
        BadLimits{"CausalWithoutPosition", [](v1::Mask& mask) { mask.mutable_causal(); },
                  "mask.causal: expected a corner or an offset, got neither"},
        BadLimits{"CornerUnspecified",
                  [](v1::Mask& mask) { mask.mutable_causal()->set_corner(v1::Diagonal::CORNER_UNSPECIFIED); },
                  "mask.causal.corner: expected TOP_LEFT or BOTTOM_RIGHT, got unspecified"},
        BadLimits{"CornerOutOfEnum",
                  [](v1::Mask& mask) { mask.mutable_causal()->set_corner(static_cast<v1::Diagonal::Corner>(7)); },
                  "mask.causal.corner: expected TOP_LEFT or BOTTOM_RIGHT, got 7"},
        BadLimits{"WindowWithoutDiagonal", [](v1::Mask& mask) { mask.mutable_window()->set_left(1); },
                  "mask.window.diagonal: expected a corner or an offset, got none"},
        BadLimits{"WindowWithoutPosition", [](v1::Mask& mask) { mask.mutable_window()->mutable_diagonal(); },
                  "mask.window.diagonal: expected a corner or an offset, got neither"},
        BadLimits{
            "WindowCornerUnspecified",
            [](v1::Mask& mask) { *mask.mutable_window()->mutable_diagonal() = At(v1::Diagonal::CORNER_UNSPECIFIED); },
            "mask.window.diagonal.corner: expected TOP_LEFT or BOTTOM_RIGHT, got unspecified"},
        BadLimits{"WindowLeftMinusTwo",
                  [](v1::Mask& mask) {
                    mask = MaskOf({"", {}, Window{kTopLeft, -2, 0}, {}, {}, {}});
                  },
                  "mask.window.left: expected -1 (unlimited) or more, got -2"},
        BadLimits{"WindowRightSmallest",
                  [](v1::Mask& mask) {
                    mask = MaskOf({"", {}, Window{kTopLeft, 0, kMin}, {}, {}, {}});
                  },
                  "mask.window.right: expected -1 (unlimited) or more, got -9223372036854775808"}),
    [](const auto& info) { return info.param.name; });

TEST(MaskLimitsTest, FoldsTheBatchAxes) {
  const Shape batch = {2, 2};
  const ScoresShape scores = {.batch = batch, .num_heads = 1, .q_length = 1, .kv_length = 9};
  const auto limits = CheckLimits(MaskOf({"", {}, {}, {1, 2, 3, 4}, {}, {}}), scores);
  ASSERT_THAT(limits, IsOk());
  EXPECT_THAT(*limits, ElementsAreArray(std::vector<SequenceLimits>{{1, 1}, {1, 2}, {1, 3}, {1, 4}}));
}

TEST(MaskLimitsTest, AcceptsOneLengthWithoutBatchAxes) {
  const ScoresShape scores = {.batch = {}, .num_heads = 1, .q_length = 1, .kv_length = 9};
  const auto limits = CheckLimits(MaskOf({"", {}, {}, {4}, {}, {}}), scores);
  ASSERT_THAT(limits, IsOk());
  EXPECT_THAT(*limits, ElementsAreArray(std::vector<SequenceLimits>{{1, 4}}));
}

TEST(MaskLimitsTest, ChecksLengthsButReturnsNoneWithoutQueries) {
  const ScoresShape scores = {.batch = kBatch, .num_heads = 1, .q_length = 0, .kv_length = 8};
  EXPECT_THAT(*CheckLimits(MaskOf({"", {}, {}, {1, 2, 3}, {}, {}}), scores), IsEmpty());
  EXPECT_THAT(CheckLimits(MaskOf({"", {}, {}, {1, 2, 9}, {}, {}}), scores),
              StatusIs(absl::StatusCode::kInvalidArgument, "mask.kv_lengths[2]: expected 0 to kv_length 8, got 9"));
}

TEST(MaskLimitsTest, CutsQueriesWithoutKeys) {
  const ScoresShape scores = {.batch = kBatch, .num_heads = 1, .q_length = 5, .kv_length = 0};
  EXPECT_THAT(*CheckLimits(MaskOf({"", kBottomRight, {}, {}, {2, 2, 2}, {}}), scores),
              ElementsAreArray(std::vector<SequenceLimits>{{2, 0, -kAll, -2}}));
}

// If one size is 0, the others can be huge.
TEST(MaskLimitsTest, NeverLoopsOverTheBatchSize) {
  const Shape batch = {int64_t{1} << 40};
  const ScoresShape huge = {.batch = batch, .num_heads = 1, .q_length = 0, .kv_length = kMax};
  EXPECT_THAT(*CheckLimits(MaskOf({"", kBottomRight, Window{kBottomRight, kMax, kMax}, {}, {}, {}}), huge), IsEmpty());
  EXPECT_THAT(CheckLimits(MaskOf({"", {}, {}, {1, 2}, {}, {}}), huge),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask.kv_lengths: expected 1099511627776 lengths, one for each row of the batch, got 2"));

  const Shape none = {0};
  const ScoresShape nothing = {.batch = none, .num_heads = 1, .q_length = kMax, .kv_length = kMax};
  EXPECT_THAT(*CheckLimits(MaskOf({"", kBottomRight, {}, {}, {}, {}}), nothing), IsEmpty());
  EXPECT_THAT(CheckLimits(MaskOf({"", {}, {}, {}, {1}, {}}), nothing),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask.q_lengths: expected 0 lengths, one for each row of the batch, got 1"));
}

}  // namespace
}  // namespace attention::server
