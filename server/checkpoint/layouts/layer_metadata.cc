#include "server/checkpoint/layouts/layer_metadata.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/layouts/tensor_rules.h"

namespace attention::server {
namespace {

constexpr absl::string_view kKey = "num_heads";

enum Part { kInputsQ, kInputsK, kInputsV, kMask, kOutput };

constexpr absl::string_view kNames[] = {"self_test/inputs_q", "self_test/inputs_k", "self_test/inputs_v",
                                        "self_test/mask", "self_test/output"};

constexpr char kTolerance[] = "self_test_tolerance";

absl::Status WrongNumber(absl::string_view key, absl::string_view expected, absl::string_view got) {
  return FieldError(absl::StrCat("metadata ", EscapeForMessage(key)), expected,
                    absl::StrCat("\"", EscapeForMessage(got), "\""));
}

absl::Status CheckFeatures(const NamedTensor& tensor, int64_t features, absl::string_view of) {
  if (absl::Status status = CheckFloat(tensor); !status.ok()) return status;
  if (tensor.shape.size() >= 2 && tensor.shape.back() == features && !IsEmpty(tensor)) return absl::OkStatus();
  return WrongShape(tensor, absl::StrCat("shape [batch…, length, ", features, "] as ", of, " of the layer",
                                         IsEmpty(tensor) ? " with sizes of at least 1" : ""));
}

absl::Status CheckTensors(const SelfTestTensors& test, const LayerShape& shape) {
  const NamedTensor& key = test.inputs_k != nullptr ? *test.inputs_k : *test.inputs_q;
  const NamedTensor& value = test.inputs_v != nullptr ? *test.inputs_v : key;
  if (auto status = CheckFeatures(*test.inputs_q, shape.in_features, "in_features"); !status.ok()) return status;
  if (auto status = CheckFeatures(key, shape.in_k_features, "in_k_features"); !status.ok()) return status;
  if (auto status = CheckFeatures(value, shape.in_v_features, "in_v_features"); !status.ok()) return status;
  if (auto status = CheckFeatures(*test.output, shape.out_features, "out_features"); !status.ok()) return status;
  return test.mask == nullptr ? absl::OkStatus() : CheckBools(*test.mask);
}

}  // namespace

HeadCounts::HeadCounts(const std::map<std::string, std::string>& metadata, int64_t requested) : requested_(requested) {
  for (const auto& [key, value] : metadata) {
    if (absl::EndsWith(key, kKey)) counts_.emplace(WithSlashes(key), value);
  }
}

absl::StatusOr<int64_t> HeadCounts::Of(absl::string_view path) const {
  if (requested_ > 0) return requested_;
  const absl::string_view without_params = absl::StripPrefix(path, "params/");
  for (const std::string& key : {absl::StrCat(path, kKey), absl::StrCat(without_params, kKey), std::string(kKey)}) {
    const auto found = counts_.find(key);
    if (found == counts_.end()) continue;
    int64_t count = 0;
    if (absl::SimpleAtoi(found->second, &count) && count > 0) return count;
    return WrongNumber(key, "an integer of at least 1", found->second);
  }
  const std::string own =
      without_params.empty() ? "" : absl::StrCat(" or ", EscapeForMessage(absl::StrCat(without_params, kKey)));
  return absl::InvalidArgumentError(
      absl::StrCat(kKey, ": required, because the shapes do not show the heads of ",
                   path.empty() ? "the layer" : EscapeForMessage(absl::StripSuffix(path, "/")),
                   "; set it in the request, or as ", kKey, own, " in the metadata of the file"));
}

const PartNames kSelfTestNames = {kNames};

absl::Status ReadSelfTest(const LayerParts& parts, const std::map<std::string, std::string>& metadata,
                          LayerTensors& layer) {
  if (!parts.unique().ok()) return parts.unique();
  for (const Part part : {kInputsQ, kOutput}) {
    if (auto status = parts.Require(part, "the other tensors of the self-test"); !status.ok()) return status;
  }
  if (parts[kInputsV] != nullptr) {
    if (auto status = parts.Require(kInputsK, "self_test/inputs_v"); !status.ok()) return status;
  }
  SelfTestTensors test = {parts[kInputsQ], parts[kInputsK], parts[kInputsV], parts[kMask], parts[kOutput]};
  if (absl::Status status = CheckTensors(test, layer.shape); !status.ok()) return status;
  if (const auto text = metadata.find(kTolerance); text != metadata.end()) {
    if (!absl::SimpleAtod(text->second, &test.tolerance) || !(test.tolerance >= 0) || std::isinf(test.tolerance)) {
      return WrongNumber(kTolerance, "a number of at least 0", text->second);
    }
  }
  layer.self_test = test;
  return absl::OkStatus();
}

}  // namespace attention::server
