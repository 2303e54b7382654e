#include "server/weights/upload.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/string_view.h"
#include "tests/unit/weights/repository_fixture.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::OnesLayer;
using ::attention::test::StatusIs;
using ::attention::test::ToParameters;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFile = File();

class UploadTest : public RepositoryFixture {
 protected:
  UploadTest() { Start(); }

  std::unique_ptr<Upload> Begin(const UploadOptions& options) {
    auto upload = repository_->BeginUpload(options);
    EXPECT_THAT(upload, IsOk());
    return *std::move(upload);
  }

  std::unique_ptr<Upload> Begin(const std::string& checkpoint, const std::string& file) {
    return Begin({.checkpoint = checkpoint, .bytes = static_cast<int64_t>(file.size())});
  }

  // Writes pieces of `bytes` bytes and commits; stops at the first error. Sets `taken` to the bytes accepted before it.
  absl::StatusOr<Published> WriteInPieces(Upload& upload, absl::string_view file, size_t bytes, size_t* taken) {
    for (*taken = 0; *taken < file.size(); *taken += bytes) {
      if (auto status = upload.Write(file.substr(*taken, bytes)); !status.ok()) return status;
    }
    return upload.Commit();
  }
};

TEST_F(UploadTest, ServesTheNextVersionAndStoresItsFile) {
  const absl::StatusOr<Published> published = UploadFile("shop/ocr", File({"a/", "b/"}));
  ASSERT_THAT(published, IsOk());
  EXPECT_EQ(published->checkpoint, "shop/ocr");
  EXPECT_EQ(published->version, 1);
  EXPECT_EQ(published->sha256, DigestOf(File({"a/", "b/"})));
  EXPECT_EQ(published->format, "safetensors");
  EXPECT_FALSE(published->unchanged);
  EXPECT_THAT(Describe(published->weight_sets), ElementsAre("shop/ocr/a@1", "shop/ocr/b@1"));
  EXPECT_THAT(Files(), ElementsAre(Blob(File({"a/", "b/"})), ".attention/manifest.json"));
  EXPECT_EQ(UploadFile("shop/ocr", kFile, true)->version, 2);
  EXPECT_THAT(Files(), ElementsAre(Blob(kFile), ".attention/manifest.json"));
  Start();
  EXPECT_THAT(Served(), ElementsAre("shop/ocr@2"));
}

TEST_F(UploadTest, AcceptsPiecesOfAnySize) {
  int64_t version = 0;
  for (const size_t bytes : {1, 7, 512, 100000}) {
    const std::string file = File({""}, static_cast<float>(bytes));
    size_t taken = 0;
    const auto published = WriteInPieces(*Begin("ocr", file), file, bytes, &taken);
    ASSERT_THAT(published, IsOk());
    EXPECT_EQ(published->version, ++version);
    EXPECT_EQ(published->sha256, DigestOf(file));
  }
}

TEST_F(UploadTest, StoresNothingForTheSameBytes) {
  ASSERT_THAT(UploadFile("ocr", kFile), IsOk());
  const WeightSetPtr before = *registry_->Find("ocr");
  const absl::StatusOr<Published> again = UploadFile("ocr", kFile);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->unchanged);
  EXPECT_EQ(again->version, 1);
  EXPECT_THAT(Describe(again->weight_sets), ElementsAre("ocr@1"));
  EXPECT_EQ(*registry_->Find("ocr"), before);
  EXPECT_THAT(Files(), ElementsAre(Blob(kFile), ".attention/manifest.json"));
}

TEST_F(UploadTest, SharesTheMemoryAndTheFileOfAnOlderVersion) {
  options_.max_weight_bytes = 2 * kOnesBytes;
  Start();
  ASSERT_THAT(UploadFile("ocr", kFile), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  ASSERT_THAT(UploadFile("ocr", File({""}, 2)), IsOk());
  const absl::StatusOr<Published> back = UploadFile("ocr", kFile);
  ASSERT_THAT(back, IsOk()) << "the limit allows two layers, not three";
  EXPECT_EQ(back->version, 3);
  EXPECT_FALSE(back->unchanged);
  EXPECT_THAT(Served(), ElementsAre("ocr@3", "ocr@1 (stable)"));
  EXPECT_EQ((*registry_->Find("ocr", 3))->layer, (*registry_->Find("ocr", 1))->layer);
  EXPECT_THAT(Files(), ElementsAre(Blob(kFile), ".attention/manifest.json"));
  Start();
  EXPECT_THAT(Served(), ElementsAre("ocr@3", "ocr@1 (stable)"));
  EXPECT_EQ((*registry_->Find("ocr", 3))->layer, (*registry_->Find("ocr", 1))->layer);
}

TEST_F(UploadTest, ServesAnUnloadedCheckpointAgain) {
  ASSERT_THAT(UploadFile("ocr", kFile), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  const absl::StatusOr<Published> same = UploadFile("ocr", kFile);
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->version, 1);
  EXPECT_FALSE(same->unchanged);
  EXPECT_THAT(Served(), ElementsAre("ocr@1 (stable)"));
  ASSERT_THAT(repository_->Unload("ocr"), IsOk());
  EXPECT_EQ(UploadFile("ocr", File({""}, 2))->version, 2);
  EXPECT_THAT(Served(), ElementsAre("ocr@2", "ocr@1 (stable)"));
}

TEST_F(UploadTest, ChecksTheOptions) {
  struct Case {
    UploadOptions options;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{.checkpoint = "OCR", .bytes = 1}, "header.checkpoint: expected a name"},
           {{.checkpoint = "ocr", .bytes = 0}, "header.bytes: expected at least 1, got 0"},
           {{.checkpoint = "ocr", .bytes = -1}, "header.bytes: expected at least 1, got -1"},
           {{.checkpoint = "ocr", .bytes = 1, .sha256 = std::string(64, 'A')},
            "header.sha256: expected 64 lower case hexadecimal digits, got \""},
           {{.checkpoint = "ocr", .bytes = 1, .sha256 = "ab"},
            "header.sha256: expected 64 lower case hexadecimal digits, got \""},
           {{.checkpoint = "ocr", .bytes = 1, .num_heads = -1}, "header.num_heads: expected 0 or more, got -1"},
       }) {
    EXPECT_THAT(repository_->BeginUpload(c.options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
  EXPECT_THAT(repository_->BeginUpload({.checkpoint = "ocr", .bytes = int64_t{1} << 62}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room for 4611686018427387904 bytes")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(UploadTest, RejectsBytesThatWereNotAnnounced) {
  auto longer = Begin({.checkpoint = "ocr", .bytes = static_cast<int64_t>(kFile.size()) - 1});
  EXPECT_THAT(longer->Write(kFile),
              StatusIs(absl::StatusCode::kInvalidArgument, "chunk: expected at most header.bytes " +
                                                               std::to_string(kFile.size() - 1) +
                                                               " bytes in total, got " + std::to_string(kFile.size())));
  auto shorter = Begin("ocr", kFile);
  ASSERT_THAT(shorter->Write(kFile.substr(1)), IsOk());
  EXPECT_THAT(shorter->Commit(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          "header.bytes: expected " + std::to_string(kFile.size()) +
                                              " bytes in chunks, got " + std::to_string(kFile.size() - 1)));
  auto other =
      Begin({.checkpoint = "ocr", .bytes = static_cast<int64_t>(kFile.size()), .sha256 = DigestOf(File({""}, 2))});
  ASSERT_THAT(other->Write(kFile), IsOk());
  EXPECT_THAT(other->Commit(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "header.sha256: expected " + DigestOf(File({""}, 2)) + ", got " + DigestOf(kFile)));
  longer.reset();
  shorter.reset();
  other.reset();
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Served(), IsEmpty());
}

TEST_F(UploadTest, RemovesTheFileOfAnAbandonedUpload) {
  auto upload = Begin("ocr", kFile);
  ASSERT_THAT(upload->Write(kFile.substr(0, 100)), IsOk());
  EXPECT_EQ(Files().size(), 1u);
  upload.reset();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(UploadTest, TakesDiskSpaceAsBytesArrive) {
  const auto upload = Begin({.checkpoint = "ocr", .bytes = int64_t{64} << 20});
  ASSERT_THAT(upload->Write(kFile.substr(0, 100)), IsOk());
  ASSERT_EQ(Files().size(), 1u);
  struct stat info;
  ASSERT_EQ(stat(Path("weights/" + Files()[0]).c_str(), &info), 0);
  EXPECT_EQ(info.st_size, int64_t{64} << 20);
  EXPECT_LE(info.st_blocks * 512, int64_t{1} << 20);
}

TEST_F(UploadTest, LimitsStoredAndArrivingBytes) {
  const auto size = static_cast<int64_t>(kFile.size());
  options_.max_weight_storage = 2 * size + 10;
  Start();
  ASSERT_THAT(UploadFile("a", kFile), IsOk());
  const auto refused = [&](const std::string& actual) {
    return StatusIs(absl::StatusCode::kResourceExhausted,
                    absl::StrCat("weights folder: expected at most --max-weight-storage ", 2 * size + 10,
                                 " bytes of stored and arriving uploads, got ", actual));
  };
  EXPECT_THAT(repository_->BeginUpload({.checkpoint = "b", .bytes = size + 11}),
              refused(absl::StrCat(size, " and ", size + 11, " more")));
  auto first = Begin("b", Content(2)), second = Begin("c", Content(3));
  ASSERT_THAT(first->Write(Content(2).substr(0, 11)), IsOk());
  ASSERT_THAT(second->Write(Content(3).substr(0, size - 1)), IsOk()) << "up to the limit";
  EXPECT_THAT(second->Write(Content(3).substr(size - 1)), refused(absl::StrCat(2 * size + 11)));
  second.reset();
  ASSERT_THAT(first->Write(Content(2).substr(11)), IsOk());
  ASSERT_THAT(first->Commit(), IsOk());
  first.reset();
  EXPECT_THAT(repository_->BeginUpload({.checkpoint = "b", .bytes = 11}),
              refused(absl::StrCat(2 * size, " and 11 more")));
  ASSERT_THAT(repository_->Delete("a", 0), IsOk());
  EXPECT_THAT(UploadFile("b", Content(4)), IsOk());
  Start();
  EXPECT_THAT(repository_->BeginUpload({.checkpoint = "b", .bytes = size + 11}),
              refused(absl::StrCat(size, " and ", size + 11, " more")))
      << "the start counts what is stored";
}

// Headers of some hundred bytes, before a mebibyte of data that is never sent.
TEST_F(UploadTest, RejectsABadHeaderBeforeTheData) {
  constexpr int64_t kFloats = 1 << 18;
  const auto with = [](test::Parameters parameters) {
    parameters.push_back(test::FloatParameter("z", {kFloats}, std::vector<float>(kFloats)));
    return test::Serialize(parameters);
  };
  test::Parameters misshaped = ToParameters(OnesLayer());
  misshaped[0].shape = {3, 2, 2};
  test::Parameters damaged = ToParameters(OnesLayer());
  std::string bad_json = with(damaged);
  bad_json[8] = '[';
  ASSERT_THAT(UploadFile("other", File({"a/"})), IsOk());
  options_.max_weight_bytes = 3 * kOnesBytes - 1;
  Start();
  struct Case {
    std::string checkpoint, file;
    absl::StatusCode code;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {"ocr", std::string(1 << 20, 'x'), absl::StatusCode::kInvalidArgument, "checkpoint ocr: "},
           {"ocr", with({}), absl::StatusCode::kInvalidArgument, "checkpoint ocr: "},
           {"ocr", with(misshaped), absl::StatusCode::kInvalidArgument, "to match query/kernel [3, 2, 2], got shape"},
           {"ocr", bad_json, absl::StatusCode::kInvalidArgument, "checkpoint ocr: "},
           {"other/a", with(damaged), absl::StatusCode::kAlreadyExists, "is already served from checkpoint other"},
       }) {
    size_t taken = 0;
    EXPECT_THAT(WriteInPieces(*Begin(c.checkpoint, c.file), c.file, 4096, &taken),
                StatusIs(c.code, HasSubstr(c.message)));
    EXPECT_LT(taken, 8192u) << c.message;
  }
  test::Parameters two = ToParameters(OnesLayer(), "a/");
  for (test::Parameter& parameter : ToParameters(OnesLayer(), "b/")) two.push_back(std::move(parameter));
  size_t taken = 0;
  EXPECT_THAT(
      WriteInPieces(*Begin("ocr", with(two)), with(two), 4096, &taken),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "checkpoint ocr: expected at most 415 bytes of weights, got 416; --max-weight-bytes is 623 and other "
               "weight sets take 208"));
  EXPECT_LT(taken, 8192u);
  EXPECT_THAT(Files(), ElementsAre(Blob(File({"a/"})), ".attention/manifest.json"));
}

TEST_F(UploadTest, GivesTwoUploadsOfOneNameTwoVersions) {
  const std::string other = File({""}, 2);
  auto first = Begin("ocr", kFile), second = Begin("ocr", other);
  ASSERT_THAT(first->Write(kFile.substr(0, 300)), IsOk());
  ASSERT_THAT(second->Write(other), IsOk());
  ASSERT_THAT(first->Write(kFile.substr(300)), IsOk());
  EXPECT_EQ(second->Commit()->version, 1);
  EXPECT_EQ(first->Commit()->version, 2);
  EXPECT_EQ((*registry_->Find("ocr"))->version, 2);
  EXPECT_THAT(Files(), ElementsAre(Blob(kFile), ".attention/manifest.json"));
}

TEST_F(UploadTest, RepairsABrokenVersion) {
  ASSERT_THAT(UploadFile("ocr", kFile), IsOk());
  std::ofstream(Path("weights/" + Blob(kFile))) << "damaged";
  EXPECT_THAT(Start().broken, ElementsAre(absl::StrCat("ocr: checkpoint ocr: version 1: sha256 of its file: expected ",
                                                       DigestOf(kFile), ", got ", DigestOf("damaged"))));
  const absl::StatusOr<Published> again = UploadFile("ocr", kFile);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->version, 2);
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr@2"));
}

TEST_F(UploadTest, ServesTheVersionsThatAreNotBroken) {
  ASSERT_THAT(UploadFile("a", File({""}, 1)), IsOk());
  ASSERT_THAT(UploadFile("ocr", File({""}, 2)), IsOk());
  ASSERT_THAT(repository_->SetAlias("ocr", "stable", 1), IsOk());
  ASSERT_THAT(UploadFile("ocr", File({""}, 3)), IsOk());
  std::filesystem::remove(Path("weights/" + Blob(File({""}, 3))));
  const Repository::StartReport report = Start();
  EXPECT_THAT(report.broken,
              ElementsAre("ocr: checkpoint ocr: version 2: its file cannot be opened: No such file or directory"));
  EXPECT_EQ(report.loaded, 2);
  EXPECT_THAT(Served(), ElementsAre("a@1", "ocr@1 (stable)"));
  EXPECT_THAT(repository_->LoadCheckpoint("ocr"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("version 2: its file cannot be opened")));
  EXPECT_THAT(repository_->SetAlias("ocr", "stable", 2),
              StatusIs(absl::StatusCode::kFailedPrecondition, R"(version: version 2 of checkpoint "ocr" is broken)"));
  EXPECT_THAT(Served(), ElementsAre("a@1", "ocr@1 (stable)"));
}

// An older operator's file does not replace it either.
TEST_F(UploadTest, KeepsAVersionThatNoLongerFits) {
  Write("ocr.safetensors", kFile);
  ASSERT_THAT(repository_->LoadCheckpoint("ocr"), IsOk());
  ASSERT_THAT(UploadFile("ocr", File({"a/", "b/"}), true), IsOk());
  options_.max_weight_bytes = kOnesBytes;
  EXPECT_THAT(Start().broken,
              ElementsAre(HasSubstr("ocr: checkpoint ocr: expected at most 208 bytes of weights, got 416")));
  EXPECT_THAT(Served(), IsEmpty());
  options_.max_weight_bytes = 2 * kOnesBytes;
  EXPECT_THAT(Start().broken, IsEmpty());
  EXPECT_THAT(Served(), ElementsAre("ocr/a@2", "ocr/b@2"));
}

}  // namespace
}  // namespace attention::server
