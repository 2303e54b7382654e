#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention::server {

// The parts of "host:port" or "[ipv6]:port". The host has no brackets.
struct HostPort {
  std::string host;
  std::string port;
};

// Checks the syntax of an address: "host:port", "[ipv6]:port" or "unix:PATH". INVALID_ARGUMENT with the address
// otherwise.
absl::Status CheckListenAddress(absl::string_view address);

// REQUIRES of the functions below: CheckListenAddress accepts the address.

bool IsUnixAddress(absl::string_view address);

// The path of a unix address.
std::string UnixPath(absl::string_view address);

HostPort SplitHostPort(absl::string_view address);

// Returns the address with the port that was bound. A unix address is returned unchanged.
std::string WithPort(const std::string& address, int port);

}  // namespace attention::server
