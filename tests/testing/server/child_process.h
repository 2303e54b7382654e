#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace attention::test {

// A program that runs as a child process. The destructor kills it if it still runs.
class ChildProcess {
 public:
  // `arguments` begins with the path of the program. Its standard error goes to `stderr_fd` if that is not negative.
  explicit ChildProcess(std::vector<std::string> arguments, int stderr_fd = -1);
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool started() const { return pid_ != 0; }

  void Signal(int signal) const;

  // Waits until the program ends; returns its exit code, or minus the signal that ended it.
  int Await();

 private:
  pid_t pid_ = 0;
};

}  // namespace attention::test
