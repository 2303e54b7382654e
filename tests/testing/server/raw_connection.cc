#include "tests/testing/server/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>

namespace attention::test {
namespace {

constexpr size_t kFrameHeaderBytes = 9;

}  // namespace

RawConnection::RawConnection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
}

RawConnection::~RawConnection() { close(fd_); }

void RawConnection::SendPreface() {
  constexpr std::string_view kEmptySettings("\0\0\0\4\0\0\0\0\0", kFrameHeaderBytes);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(kEmptySettings);
  send(fd_, preface.data(), preface.size(), MSG_NOSIGNAL);
}

std::string RawConnection::ReadToEnd() {
  std::string all, part(4096, '\0');
  for (ssize_t bytes = 0; (bytes = read(fd_, part.data(), part.size())) > 0;) {
    all.append(part, 0, static_cast<size_t>(bytes));
  }
  return all;
}

int CountFrames(const std::string& bytes, uint8_t type) {
  int count = 0;
  for (size_t at = 0; at + kFrameHeaderBytes <= bytes.size();) {
    const auto byte = [&bytes, at](size_t i) { return static_cast<uint8_t>(bytes[at + i]); };
    if (byte(3) == type) ++count;
    at += kFrameHeaderBytes + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
  }
  return count;
}

}  // namespace attention::test
