#include <gtest/gtest.h>

#include "server/rpc/reply_plan.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

TEST(ReplyPlanEmptyRowsTest, CountsTheRows) {
  for (const EmptyRowRule rule : {EmptyRowRule::kUniform, EmptyRowRule::kZero}) {
    EmptyRowCounter rows;
    rows.Add({{0, 1, 2}, {3, 0, 4}});
    v1::AttendResponse response;
    EXPECT_THAT(ReportEmptyRows(rows, rule, &response), IsOk());
    EXPECT_EQ(response.empty_rows(), 2);
  }
}

TEST(ReplyPlanEmptyRowsTest, RejectsThemUnderErrorRule) {
  EmptyRowCounter rows;
  v1::AttendResponse response;
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response), IsOk());
  EXPECT_EQ(response.empty_rows(), 0);
  rows.Add({{0, 1, 2}});
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask: expected a visible key for every query row because options.empty_rows is ERROR, got 1 "
                       "row without one at [sequence 0, head 1, query 2]"));
  rows.Add({{3, 0, 4}, {0, 0, 9}});
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask: expected a visible key for every query row because options.empty_rows is ERROR, got 3 "
                       "rows without one, the first at [sequence 0, head 0, query 9], [sequence 0, head 1, query 2], "
                       "[sequence 3, head 0, query 4]"));
}

TEST(ReplyPlanEmptyRowsTest, ListsTheFirstEight) {
  EmptyRowCounter rows;
  for (int64_t query = 99; query >= 0; --query) rows.Add({{0, 0, query}});
  v1::AttendResponse response;
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask: expected a visible key for every query row because options.empty_rows is ERROR, got 100 "
                       "rows without one, the first at [sequence 0, head 0, query 0], [sequence 0, head 0, query 1], "
                       "[sequence 0, head 0, query 2], [sequence 0, head 0, query 3], [sequence 0, head 0, query 4], "
                       "[sequence 0, head 0, query 5], [sequence 0, head 0, query 6], [sequence 0, head 0, query 7]"));
}

}  // namespace
}  // namespace attention::server
