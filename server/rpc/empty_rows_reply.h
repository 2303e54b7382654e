#pragma once

#include "absl/status/status.h"
#include "attention/v1/attention.pb.h"
#include "server/engine/attention_call.h"
#include "server/engine/empty_rows.h"

namespace attention::server {

// Says in the response how many rows saw no key. INVALID_ARGUMENT, with their number and the first of them, if there
// are any and the rule is kError.
absl::Status ReportEmptyRows(const EmptyRows& rows, EmptyRowRule rule, v1::AttendResponse* response);

}  // namespace attention::server
