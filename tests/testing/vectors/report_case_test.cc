#include "tests/testing/vectors/report_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kReport[] = R"({
  "inputs": {"calls": [
    {"name": "good", "weight_set": "w",
     "inputs_q": {"dtype": "F32", "shape": [1, 2], "data": ["NaN", 2.5]},
     "inputs_kv": {"dtype": "F16", "shape": [1, 1], "data": [1]},
     "mask": {"dtype": "BOOL", "shape": [2], "data": [true, false]}},
    {"name": "bad", "weight_set": "w",
     "inputs_q": {"dtype": 9999, "shape": [-1], "raw_bytes": 3},
     "inputs_kv": {"dtype": "F32", "shape": [1, 2], "data": [1, 2]},
     "inputs_k": {"dtype": "F32", "shape": [1, 2], "data": [3, 4]}},
    {"name": "twice", "weight_set": "w",
     "inputs_q": {"dtype": "F32", "shape": [1], "raw_bytes": 4, "float_data": [1]}},
    {"name": "either", "weight_set": "w"}],
    "files": [{"name": "f", "format": "safetensors", "base64": "AAEC"}]},
  "weights": {"w": {"out/bias": {"dtype": "F32", "shape": [1], "data": [0.5]}}},
  "expected": {"calls": {
    "good": {"status": "OK", "output": {"dtype": "F32", "shape": [1, 2], "data": [3, "NaN"]},
             "must_not_equal": [{"means": "swapped", "output": {"dtype": "F32", "shape": [1, 2], "data": [3.5, "NaN"]}}],
             "call_tolerance": {"abs": 0.25, "rel": 0}},
    "bad": {"status": "INVALID_ARGUMENT", "message_contains": ["inputs_q", "[1, 2]"],
            "or_else": {"status": "NOT_FOUND"}},
    "twice": {"status": "INVALID_ARGUMENT"},
    "either": {"status": "OK", "one_of": [{"dtype": "F32", "shape": [1, 2], "data": [1, 2]},
                                          {"dtype": "F32", "shape": [1, 2], "data": [3, 4]}]}}},
  "tolerance": {"abs": 1e-5, "rel": 1e-5}})";

TEST(ReportCaseTest, ReadsRequestsAndWeights) {
  const Report report = ParseReport(kReport).value();
  ASSERT_EQ(report.calls.size(), 3u);
  EXPECT_THAT(report.inexpressible, ElementsAre("twice"));

  const v1::AttendRequest& good = report.calls[0].request;
  EXPECT_EQ(good.inputs_q().data(), std::string("\0\0\xc0\x7f\0\0\x20\x40", 8));
  EXPECT_EQ(good.inputs_k().dtype(), v1::DATA_TYPE_FLOAT16);
  EXPECT_EQ(good.inputs_k().data(), std::string("\0\x3c", 2));
  EXPECT_FALSE(good.has_inputs_v());
  EXPECT_EQ(good.mask().dense().data(), std::string("\1\0", 2));

  const v1::AttendRequest& bad = report.calls[1].request;
  EXPECT_EQ(bad.inputs_q().dtype(), 9999);
  EXPECT_THAT(bad.inputs_q().shape(), ElementsAre(-1));
  EXPECT_EQ(bad.inputs_q().data().size(), 3u);
  EXPECT_THAT(bad.inputs_k().shape(), ElementsAre(1, 2, 1, 2));

  const Parameters& weights = report.weights.at("w");
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0].name, "out/bias");
  EXPECT_EQ(weights[0].bytes, std::string("\0\0\0\x3f", 4));
  EXPECT_EQ(report.files.at("f"), std::string("\0\1\2", 3));
}

std::string Judge(const std::string& call, const absl::Status& status, const std::vector<float>& output = {}) {
  const Report report = ParseReport(kReport).value();
  std::string why;
  const auto judged = std::find_if(report.calls.begin(), report.calls.end(),
                                   [&](const ReportCall& candidate) { return candidate.name == call; });
  return IsRightAnswer(*judged, status, ClientTensor(WireFloats({1, 2}, output)), why) ? "right" : why;
}

TEST(ReportCaseTest, JudgesOutputsByTheToleranceOfTheCall) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Judge("good", absl::OkStatus(), {3.2f, nan}), "right");
  EXPECT_THAT(Judge("good", absl::OkStatus(), {3.2f, 0}), HasSubstr("at [0, 1]"));
  EXPECT_EQ(Judge("good", absl::OkStatus(), {3.25f, nan}), "a typical mistake: swapped");
  EXPECT_THAT(Judge("good", absl::InternalError("x")), HasSubstr("expected OK, got INTERNAL"));
}

TEST(ReportCaseTest, TakesOneOfSeveralAnswersAndNoMixture) {
  EXPECT_EQ(Judge("either", absl::OkStatus(), {1, 2}), "right");
  EXPECT_EQ(Judge("either", absl::OkStatus(), {3, 4}), "right");
  EXPECT_THAT(Judge("either", absl::OkStatus(), {1, 4}), HasSubstr("at [0, "));
}

TEST(ReportCaseTest, JudgesErrorsByCodeAndWords) {
  EXPECT_EQ(Judge("bad", absl::InvalidArgumentError("inputs_q has (1,2)")), "right");
  EXPECT_EQ(Judge("bad", absl::NotFoundError("")), "right");
  EXPECT_THAT(Judge("bad", absl::InvalidArgumentError("inputs_q has (1,3)")), HasSubstr("lacks '[1, 2]'"));
  EXPECT_THAT(Judge("bad", absl::OkStatus(), {0, 0}), HasSubstr("expected INVALID_ARGUMENT, got OK"));
}

TEST(ReportCaseTest, RefusesWhatDoesNotFollowTheFormat) {
  EXPECT_EQ(ParseReport("{").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseReport(R"({"inputs": {}})").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string no_base64 = R"({"inputs": {"files": [{"name": "f", "format": "safetensors", "base64": "!"}],
    "calls": []}, "weights": {}})";
  EXPECT_EQ(ParseReport(no_base64).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attention::test
