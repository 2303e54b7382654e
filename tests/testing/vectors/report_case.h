#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "tests/testing/files/weights.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// One answer that a call of a report may get.
struct ReportAnswer {
  absl::StatusCode code = absl::StatusCode::kOk;
  Expected output;                            // only if the code is OK
  std::vector<Expected> other_outputs;        // equally right
  std::vector<std::string> message_contains;  // for an error; compared without spaces and with all brackets square
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

// One file of the reports folder: the fault of a public bug report as calls with their right answers.
struct Report {
  std::map<std::string, Parameters> weights;  // by weight set name
  std::map<std::string, std::string> files;   // whole safetensors files, by checkpoint name
  std::vector<ReportCall> calls;
  std::vector<std::string> inexpressible;  // calls that use a field which this API does not have
};

// Reads one file. INVALID_ARGUMENT, with the reason, if it does not follow the format.
absl::StatusOr<Report> ParseReport(const std::string& json);

// True if `status` and, if that is OK, `output` are what the report expects of this call and no typical mistake.
// Otherwise `why` says what is wrong.
bool IsRightAnswer(const ReportCall& call, const absl::Status& status, const Tensor& output, std::string& why);

}  // namespace attention::test
