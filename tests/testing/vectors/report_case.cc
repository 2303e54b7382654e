#include "tests/testing/vectors/report_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

using Json = nlohmann::json;

v1::DataType ParseDType(const Json& json) {
  static const std::map<std::string, v1::DataType> names = {
      {"F32", v1::DATA_TYPE_FLOAT32}, {"BF16", v1::DATA_TYPE_BFLOAT16}, {"F16", v1::DATA_TYPE_FLOAT16},
      {"F64", v1::DATA_TYPE_FLOAT64}, {"BOOL", v1::DATA_TYPE_BOOL},     {"U8", v1::DATA_TYPE_UINT8},
      {"I32", v1::DATA_TYPE_INT32},
  };
  if (json.is_number()) return static_cast<v1::DataType>(json.get<int>());
  return names.at(json.get<std::string>());
}

double ParseNumber(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::stod(text);
}

std::vector<double> ParseNumbers(const Json& json) {
  std::vector<double> numbers;
  for (const Json& number : json) numbers.push_back(ParseNumber(number));
  return numbers;
}

// The bytes of `numbers` in a float type; in any other type, one byte each.
std::string Encode(v1::DataType dtype, const std::vector<double>& numbers) {
  if (!server::IsFloat(static_cast<server::DType>(dtype))) return {numbers.begin(), numbers.end()};
  const std::vector<float> floats(numbers.begin(), numbers.end());
  std::string bytes(floats.size() * server::DTypeSize(static_cast<server::DType>(dtype)), '\0');
  server::FromFloat32(floats.data(), static_cast<int64_t>(floats.size()), static_cast<server::DType>(dtype),
                      reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

v1::Tensor ParseTensor(const Json& json) {
  const v1::DataType dtype = ParseDType(json.at("dtype"));
  std::string data = json.contains("raw_bytes") ? std::string(json.at("raw_bytes").get<size_t>(), '\x01')
                                                : Encode(dtype, ParseNumbers(json.at("data")));
  return WireTensor(dtype, json.at("shape").get<std::vector<int64_t>>(), std::move(data));
}

// The value with this name; `parse` is the enum's function of protobuf.
template <typename Enum, typename Parse>
Enum ParseEnum(const std::string& name, Parse parse) {
  Enum value;
  if (!parse(name, &value)) throw std::out_of_range(name);
  return value;
}

v1::HeadLayout ParseHeads(const Json& json) {
  v1::HeadLayout heads;
  heads.set_num_heads(json.at("num_heads"));
  heads.set_num_kv_heads(json.value("num_kv_heads", 0));
  heads.set_axes(
      ParseEnum<v1::HeadLayout::Axes>("AXES_" + json.at("axes").get<std::string>(), v1::HeadLayout::Axes_Parse));
  return heads;
}

v1::AttendOptions ParseOptions(const Json& json) {
  v1::AttendOptions options;
  if (json.contains("scale")) options.set_scale(json.at("scale"));
  if (json.contains("softcap")) options.set_softcap(json.at("softcap"));
  if (json.contains("compute_dtype")) {
    options.set_compute_dtype(
        ParseEnum<v1::DataType>("DATA_TYPE_" + json.at("compute_dtype").get<std::string>(), v1::DataType_Parse));
  }
  return options;
}

// inputs_kv is inputs_k without inputs_v. Both together are merged, as protobuf merges a field that is sent twice.
v1::AttendRequest ParseRequest(const Json& json) {
  v1::AttendRequest request;
  if (json.contains("heads")) {
    *request.mutable_heads() = ParseHeads(json.at("heads"));
  } else {
    request.set_weight_set(json.at("weight_set").get<std::string>());
  }
  if (json.contains("options")) *request.mutable_options() = ParseOptions(json.at("options"));
  if (json.contains("bias")) *request.mutable_bias() = ParseTensor(json.at("bias"));
  if (json.contains("inputs_q")) *request.mutable_inputs_q() = ParseTensor(json.at("inputs_q"));
  if (json.contains("inputs_kv")) *request.mutable_inputs_k() = ParseTensor(json.at("inputs_kv"));
  if (json.contains("inputs_k")) request.mutable_inputs_k()->MergeFrom(ParseTensor(json.at("inputs_k")));
  if (json.contains("inputs_v")) *request.mutable_inputs_v() = ParseTensor(json.at("inputs_v"));
  if (json.contains("mask")) *request.mutable_mask()->mutable_dense() = ParseTensor(json.at("mask"));
  return request;
}

bool IsExpressible(const Json& call) {
  for (const Json& field : call) {
    if (field.is_object() && field.contains("float_data")) return false;
  }
  return true;
}

Expected ParseExpected(const Json& json, const Json& tolerance) {
  return {json.at("shape").get<std::vector<int64_t>>(), ParseNumbers(json.at("data")), tolerance.at("abs"),
          tolerance.at("rel")};
}

absl::StatusCode ParseCode(const std::string& name) {
  for (int code = 0; code <= 16; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  throw std::out_of_range(absl::StrCat("status ", name));
}

ReportAnswer ParseAnswer(const Json& json, const Json& tolerance) {
  ReportAnswer answer;
  answer.code = ParseCode(json.at("status").get<std::string>());
  if (json.contains("output")) answer.output = ParseExpected(json.at("output"), tolerance);
  for (const Json& output : json.value("one_of", Json::array())) {
    answer.other_outputs.push_back(ParseExpected(output, tolerance));
  }
  if (!answer.other_outputs.empty()) {
    answer.output = answer.other_outputs.back();
    answer.other_outputs.pop_back();
  }
  answer.message_contains = json.value("message_contains", std::vector<std::string>());
  return answer;
}

ReportCall ParseCall(const Json& call, const Json& expected, const Json& file_tolerance) {
  const Json& tolerance = expected.contains("call_tolerance") ? expected.at("call_tolerance") : file_tolerance;
  ReportCall result;
  result.name = call.at("name").get<std::string>();
  result.request = ParseRequest(call);
  result.expected = ParseAnswer(expected, tolerance);
  if (expected.contains("or_else")) result.or_else = ParseAnswer(expected.at("or_else"), tolerance);
  for (const Json& mistake : expected.value("must_not_equal", Json::array())) {
    result.must_not_equal.push_back(
        {ParseExpected(mistake.at("output"), tolerance), mistake.at("means").get<std::string>()});
  }
  return result;
}

Parameters ParseWeights(const Json& json) {
  Parameters parameters;
  for (const auto& [name, value] : json.items()) {
    v1::Tensor tensor = ParseTensor(value);
    parameters.push_back({name,
                          static_cast<server::DType>(tensor.dtype()),
                          {tensor.shape().begin(), tensor.shape().end()},
                          std::move(*tensor.mutable_data())});
  }
  return parameters;
}

// The bytes of one weight file.
std::string ParseFile(const Json& json) {
  std::string bytes;
  if (json.at("format") != "safetensors" || !absl::Base64Unescape(json.at("base64").get<std::string>(), &bytes)) {
    throw std::invalid_argument("a file that is not safetensors in base64");
  }
  return bytes;
}

// Removes spaces and makes all brackets square.
std::string Plain(const std::string& text) {
  std::string plain;
  for (char c : text) {
    if (c == ' ') continue;
    plain += c == '(' || c == '{' ? '[' : c == ')' || c == '}' ? ']' : c;
  }
  return plain;
}

bool Matches(const ReportAnswer& answer, const absl::Status& status, const Tensor& output, std::string& why) {
  if (status.code() != answer.code) {
    why = absl::StrCat("expected ", absl::StatusCodeToString(answer.code), ", got ", status.ToString());
    return false;
  }
  if (status.ok()) {
    std::string other;
    const auto near = [&](const Expected& expected) { return IsNear(output, expected, other); };
    return IsNear(output, answer.output, why) ||
           std::any_of(answer.other_outputs.begin(), answer.other_outputs.end(), near);
  }
  for (const std::string& part : answer.message_contains) {
    if (absl::StrContains(Plain(std::string(status.message())), Plain(part))) continue;
    why = absl::StrCat("the message '", status.message(), "' lacks '", part, "'");
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Report> ParseReport(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Report report;
    for (const auto& [name, weights] : json.at("weights").items()) report.weights[name] = ParseWeights(weights);
    for (const Json& file : json.at("inputs").value("files", Json::array())) {
      report.files[file.at("name").get<std::string>()] = ParseFile(file);
    }
    for (const Json& call : json.at("inputs").at("calls")) {
      const std::string name = call.at("name").get<std::string>();
      if (IsExpressible(call)) {
        report.calls.push_back(ParseCall(call, json.at("expected").at("calls").at(name), json.at("tolerance")));
      } else {
        report.inexpressible.push_back(name);
      }
    }
    return report;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("report: ", e.what()));
  }
}

bool IsRightAnswer(const ReportCall& call, const absl::Status& status, const Tensor& output, std::string& why) {
  std::string other;
  if (!Matches(call.expected, status, output, why) &&
      !(call.or_else.has_value() && Matches(*call.or_else, status, output, other))) {
    return false;
  }
  why.clear();
  if (!status.ok()) return true;
  for (const ReportMistake& mistake : call.must_not_equal) {
    if (!IsNear(output, mistake.output, other)) continue;
    why = absl::StrCat("a typical mistake: ", mistake.means);
    return false;
  }
  return true;
}

}  // namespace attention::test
