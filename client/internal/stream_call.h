#pragma once

#include <memory>

#include "client/attention_client.h"
#include "client/internal/connection.h"

namespace attention {

// Starts an AttendStream call, which may outlive the connection.
std::unique_ptr<AttendStream> OpenAttendStream(const Connection& connection, const CallOptions& options);

}  // namespace attention
