#include "client/cli/weights/weights_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/head_axes.h"
#include "client/cli/number_format.h"

namespace attention::cli {
namespace {

using Json = nlohmann::ordered_json;

// "256", or "256/128/64" where queries, keys and values come in different widths.
std::string InFeatures(const WeightSetInfo& info) {
  if (info.in_k_features == info.in_features && info.in_v_features == info.in_features) {
    return absl::StrCat(info.in_features);
  }
  return absl::StrCat(info.in_features, "/", info.in_k_features, "/", info.in_v_features);
}

// "64", or "64/128" where keys and values, or values alone, come in another number.
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

// Names come from the server; whatever stands in them, printing must not fail.
std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string WeightSetsTable(const std::vector<WeightSetInfo>& weight_sets) {
  if (weight_sets.empty()) return "no weight sets are loaded\n";
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VERSION", "ALIASES", "IN", "HEADS", "HEAD DIM", "OUT", "MEMORY", "LAYOUT", "CHECKPOINT"}};
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
      info.out_features, "]\n  ", heads, norm, ", ", FormatBytes(info.bytes), " on the server\n\n");
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
  std::string text =
      absl::StrCat(loaded.unchanged ? "unchanged: " : "loaded ", loaded.checkpoint, ", version ", loaded.version, ", ",
                   loaded.format, ", sha256 ", loaded.sha256, "\n", WeightSetsTable(loaded.weight_sets));
  if (loaded.unused_tensors.empty()) return text;
  absl::StrAppend(&text, "tensors that belong to no attention layer: ", absl::StrJoin(loaded.unused_tensors, ", "),
                  "\n");
  return text;
}

std::string FormatBytes(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; unit < 3 && size >= 1024; ++unit) size /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, size, units[unit]);
}

}  // namespace attention::cli
