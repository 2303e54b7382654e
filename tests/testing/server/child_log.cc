#include "tests/testing/server/child_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace attention::test {
namespace {

void Close(int& fd) {
  if (fd >= 0) close(std::exchange(fd, -1));
}

}  // namespace

ChildLog::ChildLog() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  reader_ = ends[0];
  writer_ = ends[1];
}

ChildLog::~ChildLog() {
  CloseReader();
  CloseWriter();
}

void ChildLog::CloseWriter() { Close(writer_); }

void ChildLog::CloseReader() { Close(reader_); }

std::string ChildLog::ReadUntil(const std::string& text) {
  std::string all;
  for (char byte = 0; read(reader_, &byte, 1) == 1;) {
    all.push_back(byte);
    if (byte == '\n' && all.find(text) != std::string::npos) break;
  }
  return all;
}

}  // namespace attention::test
