#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Checks how an address is written: "host:port", "[ipv6]:port" or "unix:PATH". INVALID_ARGUMENT with the address
// otherwise.
absl::Status CheckListenAddress(absl::string_view address);

// Tries whether the address is free, for gRPC says only that it failed. UNAVAILABLE with the address and the system's
// reason if it is not. A socket file that no process listens on any more is removed.
// REQUIRES: CheckListenAddress accepts it.
absl::Status ProbeListenAddress(const std::string& address);

// The address with the port that it was bound to.
std::string WithPort(const std::string& address, int port);

}  // namespace attention::server
