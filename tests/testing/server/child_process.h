#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace attention::test {

// A program that runs as a child process. The destructor kills it if it still runs.
class ChildProcess {
 public:
  // `arguments` begins with the path of the program.
  explicit ChildProcess(std::vector<std::string> arguments);
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
