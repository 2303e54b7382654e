#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "tests/testing/matchers.h"
#include "tests/testing/weights.h"

namespace attention::test {

// One answer that a call of a report may get.
struct ReportAnswer {
  absl::StatusCode code = absl::StatusCode::kOk;
  Expected output;                            // if the code is OK
  std::vector<Expected> other_outputs;        // each as right as `output`
  std::vector<std::string> message_contains;  // if not; compared without spaces and by one kind of bracket
};

// A typical wrong answer and its cause.
struct ReportMistake {
  Expected output;
  std::string means;
};

struct ReportCall {
  std::string name;
  v1::AttendRequest request;
  ReportAnswer expected;
  std::optional<ReportAnswer> or_else;
  std::vector<ReportMistake> must_not_equal;
};

// One file of the reports folder: a fault kind of a public bug report as calls with their right answers.
struct Report {
  std::map<std::string, Parameters> weights;  // by weight set name
  std::map<std::string, std::string> files;   // whole safetensors files, by checkpoint name
  std::vector<ReportCall> calls;
  std::vector<std::string> inexpressible;  // calls that say what this API has no field for
};

// Reads one file. INVALID_ARGUMENT, with the reason, if it does not follow the format.
absl::StatusOr<Report> ParseReport(const std::string& json);

// True if `status` and, where that is OK, `output` are what the report wants of this call, and no typical mistake. Else
// `why` says what is wrong.
bool IsRightAnswer(const ReportCall& call, const absl::Status& status, const Tensor& output, std::string& why);

}  // namespace attention::test
