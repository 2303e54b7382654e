#pragma once

#include "absl/status/status.h"
#include "client/cli/explained_call.h"

namespace attention::cli {

// Copies what of a request its explanation needs: inputs, bias, mask and options. INVALID_ARGUMENT for a tensor whose
// shape and bytes disagree.
absl::Status TakeRequest(const AttendRequest& request, ExplainedCall& call);

// INVALID_ARGUMENT if a part of the mask has not the size that the call's sizes give it.
absl::Status CheckMask(const ExplainedCall& call);

}  // namespace attention::cli
