#include "server/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr absl::string_view kUnix = "unix:";
constexpr size_t kMaxUnixPath = sizeof(sockaddr_un::sun_path) - 1;

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

HostPort Split(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {std::string(address), ""};
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return {std::string(host), std::string(address.substr(colon + 1))};
}

absl::Status CannotListen(absl::string_view address, absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("--listen: cannot listen on ", address, ": ", reason));
}

// 0, or the errno of the bind.
int TryBind(int family, const sockaddr* name, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const absl::Cleanup close_socket = [fd] { close(fd); };
  // Like gRPC: connections of an earlier server in TIME_WAIT do not prevent the bind.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return bind(fd, name, size) == 0 ? 0 : errno;
}

absl::Status ProbeTcp(const std::string& address) {
  const HostPort parts = Split(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found); error != 0) {
    return CannotListen(address, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  int last_error = 0;
  bool free = false;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    const int error = TryBind(it->ai_family, it->ai_addr, it->ai_addrlen);
    // A host name may have addresses that this machine lacks (::1 without IPv6), but an address in use is an error.
    if (error == EADDRINUSE) return CannotListen(address, std::strerror(error));
    if (error == 0) free = true;
    last_error = error;
  }
  return free ? absl::OkStatus() : CannotListen(address, std::strerror(last_error));
}

bool HasListener(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_socket = [fd] { close(fd); };
  // EAGAIN: the backlog of the listener is full.
  return connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 || errno == EAGAIN;
}

absl::Status ProbeUnix(const std::string& address) {
  const std::string path(absl::StripPrefix(address, kUnix));
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  struct stat file;
  if (lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode)) return CannotListen(address, "the file exists and is not a socket");
    if (HasListener(name)) return CannotListen(address, std::strerror(EADDRINUSE));
    if (unlink(path.c_str()) != 0) return CannotListen(address, std::strerror(errno));
  }
  if (const int error = TryBind(AF_UNIX, reinterpret_cast<const sockaddr*>(&name), sizeof(name)); error != 0) {
    return CannotListen(address, std::strerror(error));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) {
    const size_t length = address.size() - kUnix.size();
    if (length > 0 && length <= kMaxUnixPath) return absl::OkStatus();
    return FieldError("--listen", absl::StrCat("a path of 1 to ", kMaxUnixPath, " bytes"),
                      absl::StrCat(length, " bytes in ", address));
  }
  const HostPort parts = Split(address);
  const bool bracketed = absl::StartsWith(address, "[") && absl::StrContains(address, "]:");
  const bool host = !parts.host.empty() && (bracketed || !absl::StrContains(parts.host, ":"));
  int port = -1;
  if (host && absl::SimpleAtoi(parts.port, &port) && port >= 0 && port <= 65535) return absl::OkStatus();
  return FieldError("--listen", "HOST:PORT with a port of 0 to 65535, or unix:PATH", address);
}

absl::Status ProbeListenAddress(const std::string& address) {
  return absl::StartsWith(address, kUnix) ? ProbeUnix(address) : ProbeTcp(address);
}

std::string WithPort(const std::string& address, int port) {
  if (absl::StartsWith(address, kUnix)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

}  // namespace attention::server
