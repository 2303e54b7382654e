// Files that change or are too large while they are read.

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "tests/testing/files/npz.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::OnesLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Shortens a file when it is called.
class ShorteningSelfTestRunner final : public SelfTestRunner {
 public:
  explicit ShorteningSelfTestRunner(std::string path) : path_(std::move(path)) {}

  absl::Status Run(const SelfTestTensors&, const Layer&) override {
    std::filesystem::resize_file(path_, 0);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
};

class RepositoryReadingTest : public RepositoryFixture {
 protected:
  // Layer a, whose self-test runs before layer b is read.
  static std::string TwoLayers() {
    test::Parameters parameters = ToParameters(OnesLayer(), "a/");
    for (test::Parameter& parameter : ToParameters(OnesLayer(), "b/")) parameters.push_back(std::move(parameter));
    parameters.push_back(test::FloatParameter("a/self_test/inputs_q", {1, 3}, {1, 2, 3}));
    parameters.push_back(test::FloatParameter("a/self_test/output", {1, 4}, {6, 6, 6, 6}));
    return test::Serialize(parameters);
  }
};

TEST_F(RepositoryReadingTest, ReportsAFileThatBecomesShorterWhileItIsLoaded) {
  ShorteningSelfTestRunner runner(Path("weights/ocr.safetensors"));
  options_.self_test_runner = &runner;
  Start();
  Write("ocr.safetensors", TwoLayers());
  EXPECT_THAT(
      repository_->LoadCheckpoint("ocr"),
      StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr(absl::StrCat("checkpoint ocr: its file: expected ",
                                                                        TwoLayers().size(), " bytes, got at most ")),
                                                 HasSubstr("the file became shorter while it was read"))));
  EXPECT_THAT(Served(), IsEmpty());
  options_.self_test_runner = nullptr;
  Start();
  Write("ocr.safetensors", TwoLayers());
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  EXPECT_THAT(Served(), ElementsAre("ocr/a@1", "ocr/b@1"));
}

// An npz file of OnesLayer and other deflated arrays.
std::string Npz(const std::vector<test::ZipEntry>& others) {
  std::vector<test::ZipEntry> entries = others;
  for (const test::Parameter& parameter : ToParameters(OnesLayer())) {
    const std::string shape = absl::StrJoin(parameter.shape, ", ");
    entries.push_back(
        {parameter.name + ".npy",
         test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ",), }", parameter.bytes)});
  }
  return test::MakeZip(entries, true);
}

// Arrays of zeros take a thousandth of their size when they are deflated.
std::string Zeros(int64_t bytes) {
  return test::MakeNpy(absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': (", bytes, ",), }"),
                       std::string(bytes, '\0'));
}

TEST_F(RepositoryReadingTest, InflatesOnlyTheArraysOfLayers) {
  options_.max_weight_bytes = kOnesBytes;
  Start();
  std::string file = Npz({{"unused.npy", Zeros(1 << 20)}});
  // Damages the deflated data after the header, which no layer needs.
  file[file.find("unused.npy") + 600] ^= 1;
  Write("ocr.npz", file);
  const auto published = repository_->LoadCheckpoint("ocr");
  ASSERT_THAT(published, IsOk());
  EXPECT_THAT(published->unused_tensors, ElementsAre("unused"));
}

TEST_F(RepositoryReadingTest, RefusesWhatWouldInflateToMoreThanTheLimitBeforeItInflates) {
  options_.max_weight_bytes = 1000;
  Start();
  const std::string kernel =
      test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (65536, 1, 4), }", std::string(1 << 20, '\0'));
  std::vector<test::ZipEntry> entries;
  for (const std::string name : {"query", "key", "value"}) entries.push_back({name + "/kernel.npy", kernel});
  entries.push_back({"out/kernel.npy", test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4, 4), }",
                                                     std::string(64, '\0'))});
  std::string file = test::MakeZip(entries, true);
  file[file.find("key/kernel.npy") + 600] ^= 1;
  Write("ocr.npz", file);
  EXPECT_THAT(
      repository_->LoadCheckpoint("ocr"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "checkpoint ocr: expected at most 1000 bytes of weights, got 3145792; --max-weight-bytes is 1000 "
               "and other weight sets take 0"));
  Write("ocr.npz",
        Npz({{"self_test/inputs_q.npy",
              test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (300, 3), }", std::string(3600, '\0'))},
             {"self_test/output.npy", test::MakeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (300, 4), }",
                                                    std::string(4800, '\0'))}}));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "checkpoint ocr: self-test of weight set ocr: expected at most 1000 bytes (--max-weight-bytes), "
                       "got 8400"));
}

TEST_F(RepositoryReadingTest, ServesALayerBesideTensorsOfOtherTypes) {
  Start();
  Write("ocr.npz",
        Npz({{"names.npy", test::MakeNpy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "abcd")},
             {"README.txt", "text"}}));
  const auto published = repository_->LoadCheckpoint("ocr");
  ASSERT_THAT(published, IsOk());
  EXPECT_THAT(published->unused_tensors, ElementsAre("README.txt", "names"));
  EXPECT_THAT(Served(), ElementsAre("ocr@1"));
}

TEST_F(RepositoryReadingTest, RefusesOneOfSeveralFiles) {
  Start();
  Write("model-00001-of-00002.safetensors", File());
  EXPECT_THAT(repository_->LoadCheckpoint("model-00001-of-00002"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("checkpoint model-00001-of-00002: file: expected a whole checkpoint in one file, got "
                                 "file 00001 of 00002; save")));
}

// Lines that contain "is skipped".
class SkippedLines final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    if (absl::StrContains(text, "is skipped")) lines_.push_back(text);
  }
  void flush_() override {}

  std::vector<std::string> lines_;
};

TEST_F(RepositoryReadingTest, LogsEachSkippedFileOnceWithTheReason) {
  const auto lines = std::make_shared<SkippedLines>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", lines));
  outer_.Write("outside.safetensors", File());
  std::filesystem::create_directories(Path("outside"));
  std::filesystem::create_symlink(Path("outside.safetensors"), Path("weights/link.safetensors"));
  std::filesystem::create_symlink("nowhere", Path("weights/dangling.npz"));
  std::filesystem::create_directory_symlink(Path("outside"), Path("weights/folder"));
  Write("sub/model.bin", "text");
  Write("sub/notes.txt", "text");
  Write(".hidden.bin", "text");
  Start();
  EXPECT_THAT(
      lines->Take(),
      ElementsAre("weights folder: dangling.npz is skipped: the link cannot be followed: No such file or directory",
                  "weights folder: folder is skipped: links to folders are not followed",
                  "weights folder: link.safetensors is skipped: the link leaves the weights folder",
                  "weights folder: sub/model.bin is skipped: expected .safetensors, .msgpack or .npz, got .bin"));
  repository_->PollFolder();
  EXPECT_THAT(lines->Take(), IsEmpty());
  Write("other.pt", "text");
  repository_->PollFolder();
  EXPECT_THAT(lines->Take(),
              ElementsAre("weights folder: other.pt is skipped: expected .safetensors, .msgpack or .npz, got .pt"));
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace attention::server
