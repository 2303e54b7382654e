#include "server/weights/registry.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Weight sets of those names, without a layer.
std::vector<WeightSet> Sets(const std::vector<std::string>& names) {
  std::vector<WeightSet> sets(names.size());
  for (size_t i = 0; i < names.size(); ++i) sets[i].name = names[i];
  return sets;
}

// "ocr/a@2 of ocr"
std::vector<std::string> Describe(const std::vector<WeightSetPtr>& sets) {
  std::vector<std::string> texts;
  for (const WeightSetPtr& set : sets) {
    texts.push_back(set->name + "@" + std::to_string(set->version) + " of " + set->checkpoint);
  }
  return texts;
}

TEST(RegistryTest, ServesWhatIsPublishedSortedByName) {
  Registry registry;
  const absl::StatusOr<std::vector<WeightSetPtr>> published = registry.Publish("ocr", Sets({"ocr/b", "ocr/a"}));
  ASSERT_THAT(published, IsOk());
  EXPECT_THAT(Describe(*published), ElementsAre("ocr/a@1 of ocr", "ocr/b@1 of ocr"));
  ASSERT_THAT(registry.Publish("best", Sets({"best"})), IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("best@1 of best", "ocr/a@1 of ocr", "ocr/b@1 of ocr"));
  ASSERT_THAT(registry.Find("ocr/a"), IsOk());
  EXPECT_EQ(*registry.Find("ocr/a"), (*published)[0]);
}

TEST(RegistryTest, ReplacesAllThatACheckpointHad) {
  Registry registry;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr/a", "ocr/b"})), IsOk());
  ASSERT_THAT(registry.Publish("best", Sets({"best"})), IsOk());
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr/b", "ocr/c"})), IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("best@1 of best", "ocr/b@2 of ocr", "ocr/c@1 of ocr"));
}

TEST(RegistryTest, CountsVersionsOnAfterUnload) {
  Registry registry;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  const absl::StatusOr<int64_t> unloaded = registry.Unload("ocr");
  ASSERT_THAT(unloaded, IsOk());
  EXPECT_EQ(*unloaded, 1);
  EXPECT_THAT(registry.List(), IsEmpty());
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("ocr@2 of ocr"));
}

TEST(RegistryTest, FindsTheCurrentVersionOnly) {
  Registry registry;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  EXPECT_THAT(registry.Find("ocr", 2), IsOk());
  for (const int64_t version : {1, 3, -1}) {
    EXPECT_THAT(registry.Find("ocr", version),
                StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("wanted " + std::to_string(version)),
                                                            HasSubstr("weight set \"ocr\" serves 2"))));
  }
}

TEST(RegistryTest, NamesWhatIsNotLoaded) {
  Registry registry;
  const auto is_not_loaded = StatusIs(absl::StatusCode::kNotFound, R"(weight set "a\nb" is not loaded)");
  EXPECT_THAT(registry.Find("a\nb"), is_not_loaded);
  EXPECT_THAT(registry.Find("a\nb", 7), is_not_loaded);
  EXPECT_THAT(registry.Unload("a\nb"), is_not_loaded);
}

TEST(RegistryTest, ChangesNothingIfANameIsServedFromAnotherCheckpoint) {
  Registry registry;
  ASSERT_THAT(registry.Publish("a", Sets({"a/b/c", "a/x"})), IsOk());
  ASSERT_THAT(registry.Publish("a/b", Sets({"a/b/d"})), IsOk());
  EXPECT_THAT(
      registry.Publish("a/b", Sets({"a/b/a", "a/b/c"})),
      StatusIs(absl::StatusCode::kAlreadyExists, "checkpoint a/b: weight set a/b/c is served from checkpoint a"));
  EXPECT_THAT(Describe(registry.List()), ElementsAre("a/b/c@1 of a", "a/b/d@1 of a/b", "a/x@1 of a"));
  ASSERT_THAT(registry.Publish("a/b", Sets({"a/b/a"})), IsOk());
  EXPECT_EQ((*registry.Find("a/b/a"))->version, 1);
}

TEST(RegistryTest, RefusesANameTwice) {
  Registry registry;
  EXPECT_THAT(registry.Publish("a", Sets({"a", "a"})),
              StatusIs(absl::StatusCode::kInvalidArgument, "checkpoint a: duplicate weight set a"));
  EXPECT_THAT(registry.List(), IsEmpty());
}

TEST(RegistryTest, LeavesAReplacedSetToItsHolder) {
  Registry registry;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  WeightSetPtr held = *registry.Find("ocr");
  const std::weak_ptr<const WeightSet> watched = held;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr"})), IsOk());
  EXPECT_EQ(held->version, 1);
  EXPECT_EQ(held->name, "ocr");
  held.reset();
  EXPECT_TRUE(watched.expired());
}

// Readers while a writer publishes: no gap, no version that goes back, and the two sets of one checkpoint are never of
// different loads in a list.
TEST(RegistryTest, ReplacesInOneStepUnderReaders) {
  constexpr int kLoads = 500;
  Registry registry;
  ASSERT_THAT(registry.Publish("ocr", Sets({"ocr/a", "ocr/b"})), IsOk());
  std::atomic<bool> stop = false;
  std::atomic<int> faults = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      int64_t last = 0;
      while (!stop) {
        const absl::StatusOr<WeightSetPtr> found = registry.Find("ocr/a");
        const std::vector<WeightSetPtr> list = registry.List();
        if (!found.ok() || (*found)->version < last || (*found)->checkpoint != "ocr") ++faults;
        if (list.size() != 2 || list[0]->version != list[1]->version) ++faults;
        if (found.ok()) last = (*found)->version;
      }
    });
  }
  for (int i = 0; i < kLoads; ++i) EXPECT_THAT(registry.Publish("ocr", Sets({"ocr/a", "ocr/b"})), IsOk());
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(faults, 0);
  EXPECT_THAT(Describe(registry.List()), ElementsAre("ocr/a@501 of ocr", "ocr/b@501 of ocr"));
}

}  // namespace
}  // namespace attention::server
