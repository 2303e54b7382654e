#include "server/connections/listening_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/connections/listen_address.h"

namespace attention::server {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

absl::Status CannotListen(absl::string_view address, absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("--listen: cannot listen on ", address, ": ", reason));
}

absl::Status CannotListen(absl::string_view address, int error) { return CannotListen(address, std::strerror(error)); }

void SetOption(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof(value)); }

int BoundPort(int fd) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  if (name.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

void SetPort(sockaddr* name, int port) {
  auto& in_port = name->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(name)->sin6_port
                                              : reinterpret_cast<sockaddr_in*>(name)->sin_port;
  in_port = htons(static_cast<uint16_t>(port));
}

// Sets `errno` if there is no result.
std::optional<ListeningSocket> ListenOn(const sockaddr* name, socklen_t size, bool dual_stack) {
  const int fd = socket(name->sa_family, kFlags, 0);
  if (fd < 0) return std::nullopt;
  // Connections of an earlier server in TIME_WAIT do not prevent the bind.
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (name->sa_family == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, dual_stack ? 0 : 1);
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // inherited by the connections
  if (bind(fd, name, size) != 0 || listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return std::nullopt;
  }
  return ListeningSocket(fd, BoundPort(fd), "");
}

// All IPv4 and IPv6 addresses by one socket. Nothing if the machine has no IPv6.
std::optional<ListeningSocket> ListenOnAll(int port) {
  sockaddr_in6 name = {};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(static_cast<uint16_t>(port));
  return ListenOn(reinterpret_cast<const sockaddr*>(&name), sizeof(name), /*dual_stack=*/true);
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

absl::StatusOr<AddressList> Resolve(const std::string& address, const HostPort& parts) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // Without IPv6, "::" means what 0.0.0.0 does.
  const char* host = parts.host == "::" ? "0.0.0.0" : parts.host.c_str();
  if (const int error = getaddrinfo(host, parts.port.c_str(), &hints, &found); error != 0) {
    return CannotListen(address, gai_strerror(error));
  }
  return AddressList(found, freeaddrinfo);
}

absl::StatusOr<std::vector<ListeningSocket>> OpenTcp(const std::string& address) {
  const HostPort parts = SplitHostPort(address);
  std::vector<ListeningSocket> sockets;
  if (IsWildcard(parts.host)) {
    int port = 0;
    static_cast<void>(absl::SimpleAtoi(parts.port, &port));
    auto all = ListenOnAll(port);
    if (!all && errno == EADDRINUSE) return CannotListen(address, EADDRINUSE);
    if (all) sockets.push_back(*std::move(all));
    if (!sockets.empty()) return sockets;
  }
  const auto resolved = Resolve(address, parts);
  if (!resolved.ok()) return resolved.status();
  int error = 0;
  for (addrinfo* it = resolved->get(); it != nullptr; it = it->ai_next) {
    if (!sockets.empty()) SetPort(it->ai_addr, sockets.front().port());
    auto opened = ListenOn(it->ai_addr, it->ai_addrlen, /*dual_stack=*/false);
    // A host name may have addresses that this machine lacks (::1 without IPv6), but an address in use is an error.
    if (!opened && errno == EADDRINUSE) return CannotListen(address, EADDRINUSE);
    if (!opened) error = errno;
    if (opened) sockets.push_back(*std::move(opened));
  }
  if (sockets.empty()) return CannotListen(address, error);
  return sockets;
}

bool HasListener(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, kFlags, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_socket = [fd] { close(fd); };
  // EAGAIN: the backlog of the listener is full.
  return connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 || errno == EAGAIN;
}

// Removes a socket file on which no process listens.
absl::Status RemoveUnused(const std::string& address, const sockaddr_un& name) {
  struct stat file;
  if (lstat(name.sun_path, &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) return CannotListen(address, "the file exists and is not a socket");
  if (HasListener(name)) return CannotListen(address, EADDRINUSE);
  if (unlink(name.sun_path) != 0) return CannotListen(address, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ListeningSocket>> OpenUnix(const std::string& address, std::optional<int> mode) {
  const std::string path = UnixPath(address);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  if (auto status = RemoveUnused(address, name); !status.ok()) return status;
  const int fd = socket(AF_UNIX, kFlags, 0);
  if (fd < 0) return CannotListen(address, errno);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    const absl::Status status = CannotListen(address, errno);
    close(fd);
    return status;
  }
  std::vector<ListeningSocket> sockets;
  sockets.emplace_back(fd, 0, path);
  const bool mode_set = !mode || chmod(path.c_str(), static_cast<mode_t>(*mode)) == 0;
  if (!mode_set || listen(fd, SOMAXCONN) != 0) {
    return CannotListen(address, errno);
  }
  return sockets;
}

}  // namespace

ListeningSocket::~ListeningSocket() {
  if (fd_ < 0) return;
  close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::StatusOr<std::vector<ListeningSocket>> OpenListeningSockets(const std::string& address,
                                                                  std::optional<int> unix_mode) {
  return IsUnixAddress(address) ? OpenUnix(address, unix_mode) : OpenTcp(address);
}

}  // namespace attention::server
