// Malformed requests, for instance with a shape that does not fit the bytes, among good ones.

#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

class RequestShapeVectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
    auto report = ReadReport("34-request-shape-and-bytes");
    ASSERT_THAT(report, IsOk());
    report_ = *std::move(report);
    auto sharing = RunningServer::Start({.checkpoints = report_.weights, .config = SharingConfig(kInFlight)});
    ASSERT_THAT(sharing, IsOk());
    sharing_ = *std::move(sharing);
    ASSERT_EQ(neighbour().name, "neighbour");
  }

  const ReportCall& neighbour() const { return report_.calls.back(); }

  Report report_;
  std::unique_ptr<RunningServer> sharing_;
};

TEST_F(RequestShapeVectorsTest, RefusesABadRequestAndSparesItsNeighbours) {
  EXPECT_THAT(report_.inexpressible, ::testing::ElementsAre("raw_and_typed_contents_both_set_if_the_proto_has_both"));
  ASSERT_EQ(report_.calls.size(), 22u);
  for (const ReportCall& bad : report_.calls) {
    if (bad.name == neighbour().name) continue;
    SCOPED_TRACE(bad.name);
    ExpectRightInOneBatch({neighbour()}, *sharing_, {bad});
  }
}

TEST_F(RequestShapeVectorsTest, NamesNoMoreThanTheRequestDid) {
  for (const ReportCall& bad : report_.calls) {
    if (bad.name == neighbour().name) continue;
    const std::string message(sharing_->AttendRaw(bad.request).status().message());
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr(sharing_->weights_folder().path().string())));
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr(".cc")));
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("0x")));
  }
}

}  // namespace
}  // namespace attention::test
