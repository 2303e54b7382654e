#include "client/grpc_status.h"

#include "absl/strings/str_cat.h"

namespace attention {

absl::Status ToAbslStatus(int code, const std::string& message) {
  // abseil and gRPC share the canonical numbers, 0 to 16.
  if (code < 0 || code > static_cast<int>(grpc::StatusCode::UNAUTHENTICATED)) {
    return absl::UnknownError(absl::StrCat("status code ", code, ": ", message));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

absl::Status ToAbslStatus(const grpc::Status& status) {
  return ToAbslStatus(static_cast<int>(status.error_code()), status.error_message());
}

}  // namespace attention
