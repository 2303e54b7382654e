#include "client/cli/weights/weights_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/text_format.h"

namespace attention::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBarWidth = 30;       // characters
constexpr int64_t kShownNames = 6;  // of unused tensors; a whole model has hundreds

// "256", or "256/128/64" if the query, key and value inputs differ in width.
std::string InFeatures(const WeightSetInfo& info) {
  if (info.in_k_features == info.in_features && info.in_v_features == info.in_features) {
    return absl::StrCat(info.in_features);
  }
  return absl::StrCat(info.in_features, "/", info.in_k_features, "/", info.in_v_features);
}

// "64", or "64/128" if keys and values, or values alone, have another size.
std::string Pair(int64_t first, int64_t second) {
  return first == second ? absl::StrCat(first) : absl::StrCat(first, "/", second);
}

std::string Aliases(const WeightSetInfo& info, const char* none) {
  return info.aliases.empty() ? none : absl::StrJoin(info.aliases, ",");
}

Json ToJson(const WeightSetInfo& info) {
  Json parameters = Json::array();
  for (const ParameterInfo& parameter : info.parameters) {
    parameters.push_back({{"name", parameter.name}, {"dtype", parameter.dtype}, {"shape", parameter.shape}});
  }
  return {{"name", info.name},
          {"version", info.version},
          {"checkpoint", info.checkpoint},
          {"in_features", info.in_features},
          {"in_k_features", info.in_k_features},
          {"in_v_features", info.in_v_features},
          {"num_heads", info.num_heads},
          {"num_kv_heads", info.num_kv_heads},
          {"head_dim", info.head_dim},
          {"value_head_dim", info.value_head_dim},
          {"out_features", info.out_features},
          {"normalize_qk", info.normalize_qk},
          {"bytes", info.bytes},
          {"layout", info.layout},
          {"aliases", info.aliases},
          {"parameters", parameters}};
}

// "version 3", "versions 3, 4"
std::string VersionsText(const std::vector<int64_t>& versions) {
  return absl::StrCat(versions.size() == 1 ? "version " : "versions ", absl::StrJoin(versions, ", "));
}

// What a load removed, one line each.
std::string RemovedText(const LoadedCheckpoint& loaded) {
  std::string text;
  if (!loaded.dropped_versions.empty()) {
    absl::StrAppend(&text, VersionsText(loaded.dropped_versions), loaded.dropped_versions.size() == 1 ? " is" : " are",
                    " no longer kept\n");
  }
  if (!loaded.removed_weight_sets.empty()) {
    absl::StrAppend(&text, "not in this version any more: ", absl::StrJoin(loaded.removed_weight_sets, ", "), "\n");
  }
  return text;
}

// Names come from the server and may not be valid UTF-8.
std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string ProgressBar(double fraction) {
  const int filled = static_cast<int>(fraction * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  return bar;
}

}  // namespace

std::string WeightSetsTable(const std::vector<WeightSetInfo>& weight_sets) {
  if (weight_sets.empty()) return "no weight sets are loaded\n";
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "ALIASES", "IN FEATURES", "HEADS", "HEAD DIM",
                                                 "OUT FEATURES", "MEMORY", "LAYOUT", "CHECKPOINT"}};
  for (const WeightSetInfo& info : weight_sets) {
    rows.push_back({info.name, absl::StrCat(info.version), Aliases(info, "-"), InFeatures(info),
                    Pair(info.num_heads, info.num_kv_heads), Pair(info.head_dim, info.value_head_dim),
                    absl::StrCat(info.out_features), FormatBytes(info.bytes), info.layout, info.checkpoint});
  }
  return FormatTable(rows);
}

std::string WeightSetText(const WeightSetInfo& info) {
  const std::string heads = HeadsText({info.num_heads, info.num_kv_heads, info.head_dim, info.value_head_dim});
  const char* norm = info.normalize_qk ? ", LayerNorm of query and key" : "";
  const std::string aliases = info.aliases.empty() ? "" : absl::StrCat(" (", Aliases(info, ""), ")");
  std::string text = absl::StrCat(
      info.name, ", version ", info.version, aliases, ", from checkpoint ", info.checkpoint, ", layout ", info.layout,
      "\n", "  inputs_q [batch…, q_length, ", info.in_features, "]\n  inputs_k [batch…, kv_length, ",
      info.in_k_features, "]\n  inputs_v [batch…, kv_length, ", info.in_v_features, "]\n  output   [batch…, q_length, ",
      info.out_features, "]\n  ", heads, norm, ", ", FormatBytes(info.bytes), " of memory on the server\n\n");
  std::vector<std::vector<std::string>> rows = {{"PARAMETER", "TYPE", "SHAPE"}};
  for (const ParameterInfo& parameter : info.parameters) {
    rows.push_back({parameter.name, parameter.dtype, FormatShape(parameter.shape)});
  }
  return text + FormatTable(rows);
}

std::string WeightSetJson(const WeightSetInfo& weight_set) { return Dump(ToJson(weight_set)); }

std::string WeightSetsJson(const std::vector<WeightSetInfo>& weight_sets) {
  Json list = Json::array();
  for (const WeightSetInfo& info : weight_sets) list.push_back(ToJson(info));
  return Dump(list);
}

std::string LoadedText(const LoadedCheckpoint& loaded) {
  return absl::StrCat(loaded.unchanged ? "already loaded: " : "loaded ", "checkpoint ", loaded.checkpoint, ", version ",
                      loaded.version, " (", loaded.format, ", sha256 ", loaded.sha256, ")\n",
                      WeightSetsTable(loaded.weight_sets), UnusedTensorsText(loaded.unused_tensors),
                      RemovedText(loaded));
}

std::string DeletedText(const std::string& checkpoint, const DeletedCheckpoint& deleted) {
  std::string text = absl::StrCat("deleted ", deleted.versions.empty() ? "no version" : VersionsText(deleted.versions),
                                  " of checkpoint ", checkpoint, "\n");
  for (const std::string& file : deleted.removed_files) {
    absl::StrAppend(&text, "removed the file ", file, " from the weights folder\n");
  }
  for (const std::string& file : deleted.remaining_files) {
    absl::StrAppend(&text, "the file ", file, " in the weights folder could not be removed; it is not loaded again\n");
  }
  return text;
}

std::string UnusedTensorsText(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::vector<std::string> shown;
  for (int64_t i : ShownIndices(static_cast<int64_t>(names.size()), kShownNames)) {
    shown.push_back(i == kEllipsis ? "…" : names[i]);
  }
  return absl::StrCat(CountOf(static_cast<int64_t>(names.size()), "tensor"), names.size() == 1 ? " belongs" : " belong",
                      " to no attention layer: ", absl::StrJoin(shown, ", "), "\n");
}

std::string UploadProgressText(const std::string& name, int64_t sent, int64_t total, std::chrono::nanoseconds elapsed) {
  const double fraction = total > 0 ? static_cast<double>(sent) / static_cast<double>(total) : 1;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const double rate = seconds > 0 ? static_cast<double>(sent) / seconds : 0;
  const std::string state =
      sent < total ? absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s") : std::string("the server loads it");
  return absl::StrFormat("%s  [%s] %3d %%  %s of %s, %s", name, ProgressBar(fraction), static_cast<int>(fraction * 100),
                         FormatBytes(sent), FormatBytes(total), state);
}

}  // namespace attention::cli
