#include <gtest/gtest.h>

#include "server/rpc/reply_plan.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;

TEST(EmptyRowsReplyTest, CountsTheRows) {
  for (const EmptyRowRule rule : {EmptyRowRule::kUniform, EmptyRowRule::kZero}) {
    EmptyRowCounter rows;
    rows.Add({{0, 1, 2}, {3, 0, 4}});
    v1::AttendResponse response;
    EXPECT_THAT(ReportEmptyRows(rows, rule, &response), IsOk());
    EXPECT_EQ(response.empty_rows(), 2);
  }
}

TEST(EmptyRowsReplyTest, RefusesThemIfAsked) {
  EmptyRowCounter rows;
  v1::AttendResponse response;
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response), IsOk());
  EXPECT_EQ(response.empty_rows(), 0);
  rows.Add({{0, 1, 2}});
  EXPECT_THAT(ReportEmptyRows(rows, EmptyRowRule::kError, &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mask: 1 query row sees no key, at [sequence 0, head 1, query 2]; wanted a key for each, since "
                       "options.empty_rows is ERROR"));
  rows.Add({{3, 0, 4}, {0, 0, 9}});
  EXPECT_THAT(
      ReportEmptyRows(rows, EmptyRowRule::kError, &response),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "mask: 3 query rows see no key, the first at [sequence 0, head 0, query 9], [sequence 0, head 1, "
               "query 2], [sequence 3, head 0, query 4]; wanted a key for each, since options.empty_rows is ERROR"));
}

TEST(EmptyRowsReplyTest, ListsTheFirstEight) {
  EmptyRowCounter rows;
  for (int64_t query = 99; query >= 0; --query) rows.Add({{0, 0, query}});
  v1::AttendResponse response;
  EXPECT_THAT(
      ReportEmptyRows(rows, EmptyRowRule::kError, &response),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "mask: 100 query rows see no key, the first at [sequence 0, head 0, query 0], [sequence 0, head "
               "0, query 1], [sequence 0, head 0, query 2], [sequence 0, head 0, query 3], [sequence 0, head 0, "
               "query 4], [sequence 0, head 0, query 5], [sequence 0, head 0, query 6], [sequence 0, head 0, "
               "query 7]; wanted a key for each, since options.empty_rows is ERROR"));
}

}  // namespace
}  // namespace attention::server
