#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace attention::test {

// A program that runs as a child of this process; killed, if need be, when the object goes.
class ChildProcess {
 public:
  // Path and arguments.
  explicit ChildProcess(std::vector<std::string> arguments);
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool started() const { return pid_ != 0; }

  void Signal(int signal) const;

  // Waits for the end: the exit code, or minus the signal.
  int Await();

 private:
  pid_t pid_ = 0;
};

}  // namespace attention::test
