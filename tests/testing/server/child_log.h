#pragma once

#include <string>

namespace attention::test {

// A pipe for the standard error of a child process.
class ChildLog {
 public:
  ChildLog();
  ~ChildLog();

  ChildLog(const ChildLog&) = delete;
  ChildLog& operator=(const ChildLog&) = delete;

  // The end that the child writes to. Close it once the child is started, so that the reader sees the child's end.
  int writer() const { return writer_; }
  void CloseWriter();

  // Ends reading: the child's next write fails.
  void CloseReader();

  // Reads until a line contains `text`, or the child ends. Returns everything that was read by this call.
  std::string ReadUntil(const std::string& text);

  // Reads until the child ends.
  std::string ReadToEnd() { return ReadUntil("\n\n"); }

 private:
  int reader_ = -1;
  int writer_ = -1;
};

}  // namespace attention::test
