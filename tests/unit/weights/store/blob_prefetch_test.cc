#include "server/weights/store/blob_prefetch.h"

#include <gmock/gmock.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::StatusIs;

// FakeOpen returns the digest as an error text.
ManifestVersion Version(const std::string& digest) {
  ManifestVersion version;
  version.sha256 = digest;
  return version;
}

// Their digests are "0", "1", …
std::vector<ManifestVersion> Versions(int count) {
  std::vector<ManifestVersion> versions;
  for (int i = 0; i < count; ++i) versions.push_back(Version(absl::StrCat(i)));
  return versions;
}

absl::StatusOr<OpenedFile> FakeOpen(const ManifestVersion& version) { return absl::DataLossError(version.sha256); }

TEST(BlobPrefetchTest, OpensEachBlobOnceAndReturnsItsResult) {
  std::vector<ManifestVersion> versions = Versions(50);
  for (const ManifestVersion& version : Versions(50)) versions.push_back(version);
  std::atomic<int> opened = 0;
  BlobPrefetch prefetch(versions, 4, [&](const ManifestVersion& version) {
    ++opened;
    return FakeOpen(version);
  });
  for (const ManifestVersion& version : Versions(50)) {
    EXPECT_THAT(prefetch.Take(version), StatusIs(absl::StatusCode::kDataLoss, version.sha256));
  }
  EXPECT_EQ(opened, 50);
  for (const std::string digest : {"7", "unknown"}) {
    EXPECT_THAT(prefetch.Take(Version(digest)), StatusIs(absl::StatusCode::kDataLoss, digest));
  }
  EXPECT_EQ(opened, 52) << "taken before, and not announced";
}

TEST(BlobPrefetchTest, OpensAFewBlobsAheadOfTheLastOneTaken) {
  std::atomic<size_t> opened = 0;
  absl::BlockingCounter ahead(BlobPrefetch::kAhead);
  BlobPrefetch prefetch(Versions(100), 4, [&](const ManifestVersion& version) {
    if (++opened <= BlobPrefetch::kAhead) ahead.DecrementCount();
    return FakeOpen(version);
  });
  ahead.Wait();
  EXPECT_EQ(opened, BlobPrefetch::kAhead);
  // Skips most of them.
  EXPECT_THAT(prefetch.Take(Version("90")), StatusIs(absl::StatusCode::kDataLoss, "90"));
  EXPECT_THAT(prefetch.Take(Version("5")), StatusIs(absl::StatusCode::kDataLoss, "5"));
}

TEST(BlobPrefetchTest, OpensBlobsWithoutThreads) {
  BlobPrefetch prefetch(Versions(2), 0, FakeOpen);
  EXPECT_THAT(prefetch.Take(Version("1")), StatusIs(absl::StatusCode::kDataLoss, "1"));
}

TEST(BlobPrefetchTest, TurnsAnExceptionIntoAStatus) {
  BlobPrefetch prefetch(Versions(1), 1,
                        [](const ManifestVersion&) -> absl::StatusOr<OpenedFile> { throw std::bad_alloc(); });
  EXPECT_THAT(prefetch.Take(Version("0")), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
}

}  // namespace
}  // namespace attention::server
