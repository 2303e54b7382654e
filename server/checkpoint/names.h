#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Checks the name of a checkpoint or weight set: [a-z0-9][a-z0-9._/-]{0,127} without ".." and without an empty
// component. INVALID_ARGUMENT, with `field`, the rule and the escaped name, if it breaks the rule.
absl::Status CheckName(absl::string_view field, absl::string_view name);

// Checks the name of an alias: [a-z0-9][a-z0-9._-]{0,63}. Errors as in CheckName.
absl::Status CheckAlias(absl::string_view field, absl::string_view alias);

// INVALID_ARGUMENT, with a way to join the files, for a name that Hugging Face gives to one of several files:
// "model-00001-of-00005".
absl::Status CheckNotShard(absl::string_view name);

}  // namespace attention::server
