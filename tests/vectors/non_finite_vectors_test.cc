// NaN and infinities of a request affect only the rows that they belong to.

#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

TEST(NonFiniteVectorsTest, StayInTheirRows) {
  if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
  auto report = ReadReport("35-non-finite-isolation");
  ASSERT_THAT(report, IsOk());
  auto servers = VectorServers::Start(report->weights);
  ASSERT_THAT(servers, IsOk());
  for (const ReportCall& call : report->calls) ExpectRight(call, servers->plain->AttendRaw(call.request));
  for (int round = 0; round < 50; ++round) ExpectRightInOneBatch(report->calls, *servers->sharing);
}

}  // namespace
}  // namespace attention::test
