#include "server/observability/stderr_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace attention::server {
namespace {

// A logger that writes to a pipe.
class StderrSinkTest : public ::testing::Test {
 protected:
  StderrSinkTest() {
    signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_), 0);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    logger_ = std::make_unique<spdlog::logger>("", std::make_shared<StderrSink>(ends_[1]));
    logger_->set_pattern("%v");
  }

  ~StderrSinkTest() override {
    CloseReader();
    close(ends_[1]);
  }

  void CloseReader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }

  std::string ReadAll() {
    std::string all, part(4096, '\0');
    for (ssize_t bytes = 0; (bytes = read(ends_[0], part.data(), part.size())) > 0;) {
      all.append(part, 0, static_cast<size_t>(bytes));
    }
    return all;
  }

  int ends_[2];  // of the pipe: reader, writer
  std::unique_ptr<spdlog::logger> logger_;
};

TEST_F(StderrSinkTest, WritesLinesOfEveryLength) {
  const std::string large(10000, 'x');
  logger_->info("a");
  logger_->info(large);
  logger_->info("b");
  EXPECT_EQ(ReadAll(), "a\n" + large + "\nb\n");
}

TEST_F(StderrSinkTest, DropsAndCountsLinesThatNobodyReads) {
  const std::string line(999, 'x');
  constexpr int kLines = 1000;  // more than a pipe holds
  for (int i = 0; i < kLines; ++i) logger_->info(line);
  const std::string first = ReadAll();
  const size_t taken = first.size() / (line.size() + 1);
  ASSERT_GT(taken, 0u);
  ASSERT_LT(taken, static_cast<size_t>(kLines));
  logger_->info("again");
  EXPECT_THAT(ReadAll(), ::testing::EndsWith(std::to_string(kLines - taken) +
                                             " log lines were dropped, because standard error was blocked or closed\n"
                                             "again\n"));
}

TEST_F(StderrSinkTest, OutlivesItsReader) {
  CloseReader();
  for (int i = 0; i < 3; ++i) logger_->info("unread");
}

}  // namespace
}  // namespace attention::server
