#include "server/connections/listen_address.h"

#include <sys/un.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr absl::string_view kUnix = "unix:";
constexpr size_t kMaxUnixPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

bool IsUnixAddress(absl::string_view address) { return absl::StartsWith(address, kUnix); }

std::string UnixPath(absl::string_view address) { return std::string(absl::StripPrefix(address, kUnix)); }

HostPort SplitHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {std::string(address), ""};
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return {std::string(host), std::string(address.substr(colon + 1))};
}

absl::Status CheckListenAddress(absl::string_view address) {
  if (IsUnixAddress(address)) {
    const size_t length = address.size() - kUnix.size();
    if (length > 0 && length <= kMaxUnixPath) return absl::OkStatus();
    return FieldError("--listen", absl::StrCat("a path of 1 to ", kMaxUnixPath, " bytes"),
                      absl::StrCat(length, " bytes in ", address));
  }
  const HostPort parts = SplitHostPort(address);
  const bool bracketed = absl::StartsWith(address, "[") && absl::StrContains(address, "]:");
  const bool host = !parts.host.empty() && (bracketed || !absl::StrContains(parts.host, ":"));
  int port = -1;
  if (host && absl::SimpleAtoi(parts.port, &port) && port >= 0 && port <= 65535) return absl::OkStatus();
  return FieldError("--listen", "HOST:PORT with a port of 0 to 65535, or unix:PATH", address);
}

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

}  // namespace attention::server
