#include "server/weights/store/operator_files.h"

#include <gmock/gmock.h>

namespace attention::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Files = FolderWatch::Files;

constexpr absl::Time kStart = absl::UnixEpoch();

// A file written `seconds` after kStart, on a file system that stores fractions of a second.
OperatorFiles File(int64_t seconds, uint64_t inode = 1) {
  const int64_t ns = seconds * 1'000'000'000 + 1;
  return {{"npz", {.inode = inode, .bytes = 5, .modified_ns = ns, .changed_ns = ns}}};
}

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(FolderWatchTest, ReportsAStateThatTwoCallsHaveSeen) {
  FolderWatch watch;
  watch.Begin({{"old", File(0)}}, At(10));
  EXPECT_THAT(watch.Update({{"old", File(0)}, {"new", File(10)}}, At(11)), IsEmpty());
  EXPECT_THAT(watch.Update({{"old", File(0)}, {"new", File(11)}}, At(12)), IsEmpty()) << "still being written";
  EXPECT_THAT(watch.Update({{"old", File(0)}, {"new", File(11)}}, At(13)), ElementsAre("new"));
  EXPECT_THAT(watch.Update({{"old", File(0)}, {"new", File(11)}}, At(14)), IsEmpty()) << "reported once";
}

TEST(FolderWatchTest, ReportsReplacedAndRemovedFiles) {
  FolderWatch watch;
  watch.Begin({{"a", File(0)}, {"b", File(0)}}, At(10));
  const Files replaced = {{"a", File(0, 2)}};
  EXPECT_THAT(watch.Update(replaced, At(11)), IsEmpty());
  EXPECT_THAT(watch.Update(replaced, At(12)), ElementsAre("a", "b"));
  EXPECT_THAT(watch.Update(replaced, At(13)), IsEmpty());
  EXPECT_THAT(watch.Update({}, At(14)), IsEmpty());
  EXPECT_THAT(watch.Update({}, At(15)), ElementsAre("a"));
}

TEST(FolderWatchTest, IgnoresAFileThatIsMissingForOneCall) {
  FolderWatch watch;
  watch.Begin({{"a", File(0)}}, At(10));
  EXPECT_THAT(watch.Update({}, At(11)), IsEmpty());
  EXPECT_THAT(watch.Update({{"a", File(0)}}, At(12)), IsEmpty());
  EXPECT_THAT(watch.Update({{"a", File(0)}}, At(13)), IsEmpty());
}

TEST(FolderWatchTest, ReportsAFileThatWasNotSettledAtTheStart) {
  FolderWatch watch;
  watch.Begin({{"a", File(10)}}, At(10));
  EXPECT_THAT(watch.Update({{"a", File(10)}}, At(11)), ElementsAre("a"));
}

TEST(FolderWatchTest, WaitsLongerForFileTimesInWholeSeconds) {
  const int64_t whole_second = 1'000'000'000;
  const OperatorFiles file = {{"npz", {.inode = 1, .bytes = 5, .modified_ns = 0, .changed_ns = whole_second}}};
  FolderWatch watch;
  EXPECT_THAT(watch.Update({{"a", file}}, At(1)), IsEmpty());
  EXPECT_THAT(watch.Update({{"a", file}}, At(2.5)), IsEmpty()) << "a later write may have the same time";
  EXPECT_THAT(watch.Update({{"a", file}}, At(3.5)), ElementsAre("a"));
}

TEST(FolderWatchTest, ReportsAFileFromTheFuture) {
  FolderWatch watch;
  EXPECT_THAT(watch.Update({{"a", File(1000)}}, At(1)), IsEmpty());
  EXPECT_THAT(watch.Update({{"a", File(1000)}}, At(2)), ElementsAre("a")) << "the clock was set back";
  EXPECT_THAT(watch.Update({{"b", File(1000)}}, At(1000)), IsEmpty());
  EXPECT_THAT(watch.Update({{"b", File(1000)}}, At(1000)), ElementsAre("a")) << "\"b\" may still be written";
}

}  // namespace
}  // namespace attention::server
