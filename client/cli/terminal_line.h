#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace attention::cli {

// One line of progress on standard error: each text replaces the last one, and the destructor erases it. Does nothing
// if standard error is not a terminal.
class TerminalLine {
 public:
  TerminalLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}
  ~TerminalLine() { Show(""); }

  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  bool is_visible() const { return is_terminal_; }

  void Show(const std::string& text) const {
    constexpr char kErase[] = "\r\033[K";
    if (is_terminal_) std::fputs((kErase + text).c_str(), stderr);
  }

 private:
  const bool is_terminal_;
};

}  // namespace attention::cli
