#include <malloc.h>

#include <cstdio>
#include <string>
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/options.h"

namespace {

using attention::cli::Options;
using attention::cli::Usage;

// Keeps freed memory in the process. Every message needs large blocks, and fresh pages from the kernel cost more than
// the copy into them.
void KeepFreedMemory() {
  constexpr int kNever = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
}

int Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  std::perror("attentionctl: standard output");
  return 1;
}

int RunCommand(const Options& options) {
  const absl::StatusOr<std::string> text =
      std::visit([&](const auto& command) { return attention::cli::Run(options.server, command); }, options.command);
  if (text.ok()) return Print(*text);
  std::fprintf(stderr, "attentionctl: %s\n",
               text.status().ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  const std::variant<Options, Usage> parsed = attention::cli::ParseOptions(argc, argv);
  if (const Usage* usage = std::get_if<Usage>(&parsed)) {
    std::fputs(usage->text.c_str(), usage->exit_code == 0 ? stdout : stderr);
    return usage->exit_code;
  }
  return RunCommand(std::get<Options>(parsed));
}
