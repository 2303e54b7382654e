#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>

#include "absl/strings/string_view.h"

namespace attention::server {

// Writes log lines to a descriptor without ever waiting long for its reader. Lines that a reader does not take are
// dropped and counted; their number is logged before the next line that it takes. Thread-safe.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // The descriptor must outlive this.
  explicit StderrSink(int fd) : fd_(fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  // False if the reader took nothing, or only the beginning of the line.
  bool Write(const spdlog::details::log_msg& message);
  bool WriteBytes(absl::string_view bytes);
  bool AwaitWritable() const;

  const int fd_;
  int64_t dropped_ = 0;       // since the reader took the last line
  bool inside_line_ = false;  // the reader took a line's beginning only
};

}  // namespace attention::server
