// Faults of public bug reports about attention, masks and weights: every call alone, then with others in shared
// batches.

#include <set>

#include "tests/testing/vectors/report_case.h"
#include "tests/vectors/report_checks.h"

namespace attention::test {
namespace {

class ReportVectorsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!VectorsFolder().has_value()) GTEST_SKIP() << kNoVectors;
    auto report = ReadReport(GetParam());
    ASSERT_THAT(report, IsOk());
    report_ = *std::move(report);
    ASSERT_TRUE(report_.inexpressible.empty());
    auto servers = VectorServers::Start(report_.weights, report_.files);
    ASSERT_THAT(servers, IsOk());
    servers_ = *std::move(servers);
  }

  Report report_;
  VectorServers servers_;
};

TEST_P(ReportVectorsTest, AnswersAlone) {
  for (const ReportCall& call : report_.calls) ExpectRight(call, servers_.plain->AttendRaw(call.request));
}

// Refused calls, and calls with nothing to compute, are answered at once and join no batch.
bool EntersABatch(const ReportCall& call) {
  return call.expected.code == absl::StatusCode::kOk && !call.expected.output.values.empty();
}

std::set<std::string> WeightSets(const Report& report) {
  std::set<std::string> names;
  for (const auto& [name, parameters] : report.weights) names.insert(name);
  for (const auto& [name, bytes] : report.files) names.insert(name);
  return names;
}

TEST_P(ReportVectorsTest, AnswersInASharedBatch) {
  for (const std::string& weight_set : WeightSets(report_)) {
    std::vector<ReportCall> batch;
    std::vector<ReportCall> others;
    for (const ReportCall& call : report_.calls) {
      if (call.request.weight_set() == weight_set) (EntersABatch(call) ? batch : others).push_back(call);
    }
    ASSERT_FALSE(batch.empty());
    ExpectRightInOneBatch(batch, *servers_.sharing, others);
  }
}

INSTANTIATE_TEST_SUITE_P(Reports, ReportVectorsTest,
                         ::testing::Values("01-argument-order", "02-fully-masked-row", "04-mask-polarity-type-rank",
                                           "05-causal-q-ne-k", "07-half-and-additive-overflow", "11-head-dim-1",
                                           "13-zero-sizes", "14-qk-layernorm", "20-bf16-f16-exact",
                                           "43-large-finite-logits", "44-softcap-extremes"),
                         [](const auto& info) { return "Case" + std::string(info.param, 2); });

}  // namespace
}  // namespace attention::test
