#include "server/weights/registry.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Versions = std::map<int64_t, std::vector<std::string>>;
using Aliases = std::map<std::string, int64_t, std::less<>>;

// Weight sets of those names, without a layer.
ServedCheckpoint Checkpoint(const std::string& checkpoint, const Versions& versions, const Aliases& aliases = {}) {
  ServedCheckpoint served{{}, aliases};
  for (const auto& [version, names] : versions) {
    for (const std::string& name : names) {
      auto weight_set = std::make_shared<WeightSet>();
      weight_set->name = name;
      weight_set->version = version;
      weight_set->checkpoint = checkpoint;
      served.versions[version].push_back(std::move(weight_set));
    }
  }
  return served;
}

absl::Status Serve(Registry& registry, const std::string& checkpoint, const Versions& versions,
                   const Aliases& aliases = {}) {
  return registry.Serve(checkpoint, Checkpoint(checkpoint, versions, aliases));
}

// "ocr/a@2 of ocr (stable)"
std::vector<std::string> Describe(const std::vector<ServedWeightSet>& list) {
  std::vector<std::string> texts;
  for (const auto& [weight_set, aliases] : list) {
    texts.push_back(weight_set->name + "@" + std::to_string(weight_set->version) + " of " + weight_set->checkpoint);
    for (const std::string& alias : aliases) texts.back() += " (" + alias + ")";
  }
  return texts;
}

TEST(RegistryTest, ListsByNameTheHighestVersionFirst) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{2, {"ocr/b", "ocr/a"}}, {10, {"ocr/a"}}}), IsOk());
  ASSERT_THAT(Serve(registry, "best", {{1, {"best"}}}), IsOk());
  EXPECT_THAT(Describe(registry.List()),
              ElementsAre("best@1 of best", "ocr/a@10 of ocr", "ocr/a@2 of ocr", "ocr/b@2 of ocr"));
  EXPECT_THAT(Describe(registry.List("ocr/b")), ElementsAre("ocr/b@2 of ocr"));
  EXPECT_THAT(Describe(registry.List("ocr/a")), ElementsAre("ocr/a@10 of ocr", "ocr/a@2 of ocr"));
  EXPECT_THAT(registry.List("p"), IsEmpty());
}

TEST(RegistryTest, ListsTheAliasesOfEachVersion) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{2, {"ocr"}}, {3, {"ocr"}}}, {{"stable", 2}, {"a", 2}, {"canary", 3}, {"x", 9}}),
              IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("ocr@3 of ocr (canary)", "ocr@2 of ocr (a) (stable)"));
  EXPECT_THAT(registry.Describe("ocr", 0, "stable")->aliases, ElementsAre("a", "stable"));
}

TEST(RegistryTest, FindsByVersionByAliasAndTheHighest) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{2, {"ocr"}}, {3, {"ocr"}}}, {{"stable", 2}}), IsOk());
  struct Case {
    int64_t version;
    std::string alias;
    int64_t expected;
  };
  for (const Case& c : std::vector<Case>{{0, "", 3}, {2, "", 2}, {3, "", 3}, {0, "stable", 2}}) {
    const absl::StatusOr<WeightSetPtr> found = registry.Find("ocr", c.version, c.alias);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ((*found)->version, c.expected);
  }
}

TEST(RegistryTest, NamesWhatIsNotServed) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "o", {{2, {"o/a", "o/b"}}, {3, {"o/b"}}}, {{"stable", 3}, {"lost", 1}}), IsOk());
  struct Case {
    std::string name;
    int64_t version;
    std::string alias;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {"a\nb", 0, "", R"(weight_set: no weight set named "a\nb" is loaded)"},
           {"a\nb", 7, "", R"(weight_set: no weight set named "a\nb" is loaded)"},
           {"o", 0, "stable", R"(weight_set: no weight set named "o" is loaded)"},
           {"o/b", 4, "", R"(version: weight set "o/b" has no version 4, only 3, 2)"},
           {"o/b", -1, "", R"(version: weight set "o/b" has no version -1, only 3, 2)"},
           {"o/a", 0, "", R"(version: weight set "o/a" has no version 3, the highest of its checkpoint, only 2)"},
           {"o/b", 0, "canary", R"(alias: checkpoint "o" has no alias "canary")"},
           {"o/b", 0, "lost", R"(alias: weight set "o/b" has no version 1, which the alias "lost" names, only 3, 2)"},
       }) {
    EXPECT_THAT(registry.Find(c.name, c.version, c.alias), StatusIs(absl::StatusCode::kNotFound, c.message));
    EXPECT_THAT(registry.Describe(c.name, c.version, c.alias), StatusIs(absl::StatusCode::kNotFound, c.message));
  }
}

TEST(RegistryTest, ReplacesEverythingOfACheckpoint) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{1, {"ocr/a", "ocr/b"}}}, {{"stable", 1}}), IsOk());
  ASSERT_THAT(Serve(registry, "best", {{1, {"best"}}}), IsOk());
  ASSERT_THAT(Serve(registry, "ocr", {{2, {"ocr/b", "ocr/c"}}}), IsOk());
  EXPECT_THAT(Describe(registry.List()), ElementsAre("best@1 of best", "ocr/b@2 of ocr", "ocr/c@2 of ocr"));
}

TEST(RegistryTest, StopsServingADroppedCheckpoint) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{1, {"ocr/a", "ocr/b"}}}), IsOk());
  ASSERT_THAT(Serve(registry, "best", {{1, {"best"}}}), IsOk());
  registry.Drop("ocr");
  registry.Drop("nothing");
  EXPECT_THAT(Describe(registry.List()), ElementsAre("best@1 of best"));
  ASSERT_THAT(Serve(registry, "best", {}), IsOk());
  EXPECT_THAT(registry.List(), IsEmpty());
}

TEST(RegistryTest, ChangesNothingIfANameIsServedFromAnotherCheckpoint) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "a", {{1, {"a/b/c"}}, {2, {"a/x"}}}), IsOk());
  ASSERT_THAT(Serve(registry, "a/b", {{1, {"a/b/d"}}}), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kAlreadyExists,
                                "checkpoint a/b: weight set a/b/c is already served from checkpoint a");
  EXPECT_THAT(registry.CheckNames("a/b", {"a/b/a", "a/b/c"}), refused);
  EXPECT_THAT(Serve(registry, "a/b", {{2, {"a/b/a", "a/b/c"}}}), refused);
  EXPECT_THAT(Describe(registry.List()), ElementsAre("a/b/c@1 of a", "a/b/d@1 of a/b", "a/x@2 of a"));
  EXPECT_THAT(registry.CheckNames("a/b", {"a/b/a", "a/b/d"}), IsOk());
  EXPECT_THAT(registry.CheckNames("a", {"a/b/c"}), IsOk());
}

TEST(RegistryTest, RejectsADuplicateName) {
  Registry registry;
  EXPECT_THAT(Serve(registry, "a", {{1, {"a", "a"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "checkpoint a: duplicate weight set a"));
  EXPECT_THAT(registry.List(), IsEmpty());
}

TEST(RegistryTest, KeepsAReplacedWeightSetForItsHolder) {
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{1, {"ocr"}}}), IsOk());
  WeightSetPtr held = *registry.Find("ocr");
  const std::weak_ptr<const WeightSet> watched = held;
  ASSERT_THAT(Serve(registry, "ocr", {{2, {"ocr"}}}), IsOk());
  EXPECT_EQ(held->version, 1);
  EXPECT_EQ(held->name, "ocr");
  held.reset();
  EXPECT_TRUE(watched.expired());
}

// Readers run while a writer replaces: they see no gap, versions never decrease, and a list never mixes two loads of
// one checkpoint.
TEST(RegistryTest, ReplacesInOneStepUnderReaders) {
  constexpr int kLoads = 500;
  Registry registry;
  ASSERT_THAT(Serve(registry, "ocr", {{1, {"ocr/a", "ocr/b"}}}, {{"stable", 1}}), IsOk());
  std::atomic<bool> stop = false;
  std::atomic<int> faults = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      int64_t last = 0;
      while (!stop) {
        const absl::StatusOr<WeightSetPtr> found = registry.Find("ocr/a");
        const std::vector<ServedWeightSet> list = registry.List();
        if (!found.ok() || (*found)->version < last || (*found)->checkpoint != "ocr") ++faults;
        if (list.size() != 2 || list[0].weight_set->version != list[1].weight_set->version) ++faults;
        if (!registry.Find("ocr/b", 0, "stable").ok()) ++faults;
        if (found.ok()) last = (*found)->version;
      }
    });
  }
  for (int64_t i = 2; i <= kLoads; ++i) {
    EXPECT_THAT(Serve(registry, "ocr", {{i, {"ocr/a", "ocr/b"}}}, {{"stable", i}}), IsOk());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(faults, 0);
  EXPECT_THAT(Describe(registry.List()), ElementsAre("ocr/a@500 of ocr (stable)", "ocr/b@500 of ocr (stable)"));
}

}  // namespace
}  // namespace attention::server
