#include "client/cli/weights/weights_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace attention::cli {
namespace {

WeightSetInfo Ones() {
  return {.name = "demo/ones",
          .version = 2,
          .checkpoint = "demo",
          .in_features = 3,
          .in_k_features = 3,
          .in_v_features = 3,
          .num_heads = 1,
          .num_kv_heads = 1,
          .head_dim = 4,
          .value_head_dim = 4,
          .out_features = 4,
          .bytes = 2048,
          .parameters = {{"out/bias", "float32", {4}}, {"query/kernel", "float32", {3, 1, 4}}},
          .layout = "flax"};
}

TEST(WeightsReportTest, ListsOneLinePerWeightSet) {
  WeightSetInfo mixed = Ones();
  mixed.name = "mixed";
  mixed.in_k_features = 5;
  mixed.aliases = {"canary", "stable"};
  EXPECT_EQ(
      WeightSetsTable({Ones(), mixed}),
      "NAME       VERSION  ALIASES        IN FEATURES  HEADS  HEAD DIM  OUT FEATURES   MEMORY  LAYOUT  CHECKPOINT\n"
      "demo/ones        2  -                        3      1         4             4  2.0 KiB  flax    demo\n"
      "mixed            2  canary,stable        3/5/3      1         4             4  2.0 KiB  flax    demo\n");
}

TEST(WeightsReportTest, ShowsHeadsThatDiffer) {
  WeightSetInfo grouped = Ones();
  grouped.num_heads = 8;
  grouped.num_kv_heads = 2;
  grouped.value_head_dim = 16;
  grouped.normalize_qk = true;
  EXPECT_THAT(WeightSetsTable({grouped}),
              ::testing::HasSubstr("demo/ones        2  -                  3    8/2      4/16             4"));
  EXPECT_THAT(
      WeightSetText(grouped),
      ::testing::HasSubstr("  8 heads (2 for keys and values), head_dim 4, value_head_dim 16, LayerNorm of query and "
                           "key, 2.0 KiB of memory on the server\n"));
  const auto json = nlohmann::json::parse(WeightSetJson(grouped));
  EXPECT_EQ(json["num_kv_heads"], 2);
  EXPECT_EQ(json["value_head_dim"], 16);
  EXPECT_EQ(json["normalize_qk"], true);
}

TEST(WeightsReportTest, SaysThatNothingIsLoaded) { EXPECT_EQ(WeightSetsTable({}), "no weight sets are loaded\n"); }

TEST(WeightsReportTest, ShowsShapesAndParameters) {
  EXPECT_EQ(WeightSetText(Ones()),
            "demo/ones, version 2, from checkpoint demo, layout flax\n"
            "  inputs_q [batch…, q_length, 3]\n"
            "  inputs_k [batch…, kv_length, 3]\n"
            "  inputs_v [batch…, kv_length, 3]\n"
            "  output   [batch…, q_length, 4]\n"
            "  1 head, head_dim 4, 2.0 KiB of memory on the server\n"
            "\n"
            "PARAMETER     TYPE     SHAPE\n"
            "out/bias      float32  [4]\n"
            "query/kernel  float32  [3, 1, 4]\n");
}

TEST(WeightsReportTest, ShowsAliases) {
  WeightSetInfo aliased = Ones();
  aliased.aliases = {"canary", "stable"};
  EXPECT_THAT(WeightSetText(aliased), ::testing::StartsWith("demo/ones, version 2 (canary,stable), from checkpoint"));
}

TEST(WeightsReportTest, SaysWhatWasLoaded) {
  LoadedCheckpoint loaded{.checkpoint = "demo",
                          .version = 2,
                          .sha256 = "e3b0",
                          .format = "npz",
                          .weight_sets = {Ones()},
                          .unused_tensors = {"embedding", "step"}};
  EXPECT_EQ(LoadedText(loaded),
            "loaded checkpoint demo, version 2 (npz, sha256 e3b0)\n"
            "NAME       VERSION  ALIASES  IN FEATURES  HEADS  HEAD DIM  OUT FEATURES   MEMORY  LAYOUT  CHECKPOINT\n"
            "demo/ones        2  -                  3      1         4             4  2.0 KiB  flax    demo\n"
            "2 tensors belong to no attention layer: embedding, step\n");
  loaded.unchanged = true;
  loaded.unused_tensors.clear();
  EXPECT_THAT(LoadedText(loaded),
              ::testing::AllOf(::testing::StartsWith("already loaded: checkpoint demo, version 2 ("),
                               ::testing::Not(::testing::HasSubstr("tensor"))));
}

TEST(WeightsReportTest, SaysWhatALoadRemoved) {
  LoadedCheckpoint loaded{.checkpoint = "demo", .version = 3, .weight_sets = {Ones()}};
  EXPECT_THAT(LoadedText(loaded), ::testing::EndsWith("  demo\n"));
  loaded.dropped_versions = {1};
  loaded.removed_weight_sets = {"demo/a", "demo/b"};
  EXPECT_THAT(LoadedText(loaded), ::testing::EndsWith("version 1 is no longer kept\n"
                                                      "not in this version any more: demo/a, demo/b\n"));
  loaded.dropped_versions = {1, 2};
  loaded.removed_weight_sets = {};
  EXPECT_THAT(LoadedText(loaded), ::testing::EndsWith("  demo\nversions 1, 2 are no longer kept\n"));
}

TEST(WeightsReportTest, SaysWhatWasDeleted) {
  EXPECT_EQ(DeletedText("ocr", {.versions = {2, 3}}), "deleted versions 2, 3 of checkpoint ocr\n");
  EXPECT_EQ(DeletedText("ocr", {.removed_files = {"ocr.npz"}, .remaining_files = {"ocr.msgpack"}}),
            "deleted no version of checkpoint ocr\n"
            "removed the file ocr.npz from the weights folder\n"
            "the file ocr.msgpack in the weights folder could not be removed; it is not loaded again\n");
}

TEST(WeightsReportTest, SummarizesManyUnusedTensors) {
  EXPECT_EQ(UnusedTensorsText({"step"}), "1 tensor belongs to no attention layer: step\n");
  EXPECT_EQ(UnusedTensorsText({"a", "b", "c", "d", "e", "f", "g"}),
            "7 tensors belong to no attention layer: a, b, c, …, e, f, g\n");
}

TEST(WeightsReportTest, DrawsTheProgressOfAnUpload) {
  const int64_t mebibyte = 1 << 20;
  EXPECT_EQ(UploadProgressText("ocr", 0, 64 * mebibyte, std::chrono::seconds(0)),
            "ocr  [>                             ]   0 %  0 B of 64.0 MiB, 0 B/s");
  EXPECT_EQ(UploadProgressText("ocr", 16 * mebibyte, 64 * mebibyte, std::chrono::seconds(2)),
            "ocr  [=======>                      ]  25 %  16.0 MiB of 64.0 MiB, 8.0 MiB/s");
  EXPECT_EQ(UploadProgressText("ocr", 64 * mebibyte, 64 * mebibyte, std::chrono::seconds(4)),
            "ocr  [==============================] 100 %  64.0 MiB of 64.0 MiB, the server loads it");
}

TEST(WeightsReportTest, JsonHoldsEveryField) {
  WeightSetInfo info = Ones();
  info.aliases = {"stable"};
  const nlohmann::json list = nlohmann::json::parse(WeightSetsJson({info}));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], "demo/ones");
  EXPECT_EQ(list[0]["version"], 2);
  EXPECT_EQ(list[0]["out_features"], 4);
  EXPECT_EQ(list[0]["parameters"][1]["shape"], (std::vector<int>{3, 1, 4}));
  EXPECT_EQ(list[0]["layout"], "flax");
  EXPECT_EQ(list[0]["aliases"], std::vector<std::string>{"stable"});
  EXPECT_EQ(nlohmann::json::parse(WeightSetJson(info)), list[0]);
}

}  // namespace
}  // namespace attention::cli
