#pragma once

#include "absl/status/status.h"

namespace attention::server {

// UNIMPLEMENTED: what stands for every pickle, with the way to convert the file. A pickle is a program that its reader
// runs, so none is read here.
absl::Status PickleError();

}  // namespace attention::server
