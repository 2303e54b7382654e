#pragma once

#include <cstdint>
#include <string>

namespace attention::test {

// A connection without gRPC's client, which does only what a test tells it to.
class RawConnection {
 public:
  // Connects to "127.0.0.1:PORT".
  explicit RawConnection(const std::string& address);
  ~RawConnection();

  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return connected_; }

  // Sends what every HTTP/2 client begins with.
  void SendPreface();

  // Returns what the server sends until it closes the connection.
  std::string ReadToEnd();

 private:
  int fd_ = -1;
  bool connected_ = false;
};

// How many frames of a type (6: PING, 7: GOAWAY) are in the bytes that a server sent.
int CountFrames(const std::string& bytes, uint8_t type);

}  // namespace attention::test
