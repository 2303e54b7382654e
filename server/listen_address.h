#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// Checks the syntax of an address: "host:port", "[ipv6]:port" or "unix:PATH". INVALID_ARGUMENT with the address
// otherwise.
absl::Status CheckListenAddress(absl::string_view address);

// Checks that the address can be bound, because gRPC does not report why it cannot. UNAVAILABLE, with the address and
// the system's error, if it cannot. Removes a socket file on which no process listens. REQUIRES: CheckListenAddress
// accepts the address.
absl::Status ProbeListenAddress(const std::string& address);

// Returns the address with the port that was bound. A unix address is returned unchanged.
std::string WithPort(const std::string& address, int port);

}  // namespace attention::server
