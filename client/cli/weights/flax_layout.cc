#include "client/cli/weights/flax_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention::cli {
namespace {

using server::DType;
using server::LayerTensors;
using server::NamedTensor;
using server::ParameterSource;
using server::TensorMap;

struct Parameter {
  const char* name;
  const ParameterSource* source;
};

std::vector<Parameter> Biases(const LayerTensors& layer) {
  return {{"query/bias", &layer.query.bias},
          {"key/bias", &layer.key.bias},
          {"value/bias", &layer.value.bias},
          {"out/bias", &layer.out.bias}};
}

// Those that the file has.
std::vector<Parameter> Present(const LayerTensors& layer) {
  std::vector<Parameter> parameters = Biases(layer);
  parameters.insert(parameters.end(), {{"query/kernel", &layer.query.kernel},
                                       {"key/kernel", &layer.key.kernel},
                                       {"value/kernel", &layer.value.kernel},
                                       {"out/kernel", &layer.out.kernel},
                                       {"query_ln/scale", &layer.query_ln},
                                       {"key_ln/scale", &layer.key_ln}});
  std::erase_if(parameters, [](const Parameter& parameter) { return !*parameter.source; });
  return parameters;
}

// Biases that the layer must get so as to have all four; none if it has none.
std::vector<Parameter> MissingBiases(const LayerTensors& layer) {
  std::vector<Parameter> biases = Biases(layer);
  std::erase_if(biases, [](const Parameter& bias) { return bool(*bias.source); });
  if (biases.size() == 4) biases.clear();
  return biases;
}

DType TypeOf(const LayerTensors& layer) {
  const DType dtype = layer.query.kernel.tensor->dtype;
  for (const Parameter& parameter : Present(layer)) {
    if (parameter.source->tensor->dtype != dtype) return DType::kFloat32;
  }
  return dtype;
}

std::vector<std::byte> Read(const ParameterSource& source, DType dtype) {
  if (source.tensor->dtype == dtype) return ReadBytes(source);
  const std::vector<float> values = ReadFloats(source);
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// All of a tensor, as it stands in the file.
bool IsWhole(const ParameterSource& source, DType dtype) {
  return !source.transposed && source.tensor->dtype == dtype && source.tensor->shape == source.shape;
}

class Writer {
 public:
  TensorMap Finish() && {
    std::sort(map_.tensors.begin(), map_.tensors.end(),
              [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
    return std::move(map_);
  }

  void Add(const LayerTensors& layer) {
    prefix_ = layer.path.empty() ? "" : absl::StrCat(layer.path, "/");
    const DType dtype = TypeOf(layer);
    for (const Parameter& parameter : Present(layer)) AddParameter(parameter.name, *parameter.source, dtype);
    for (const Parameter& bias : MissingBiases(layer)) AddZeros(bias.name, bias.source->shape, dtype);
    if (layer.self_test.has_value()) AddSelfTest(*layer.self_test);
  }

 private:
  void AddParameter(const char* name, const ParameterSource& source, DType dtype) {
    if (IsWhole(source, dtype)) {
      AddTensor(name, dtype, source.shape, source.tensor->data);
    } else {
      AddOwned(name, dtype, source.shape, Read(source, dtype));
    }
  }

  // Zero is zero bits in every float type.
  void AddZeros(const char* name, const server::Shape& shape, DType dtype) {
    AddOwned(name, dtype, shape, std::vector<std::byte>(*server::ByteCount(shape, dtype)));
  }

  void AddSelfTest(const server::SelfTestTensors& test) {
    const std::pair<const char*, const NamedTensor*> tensors[] = {{"inputs_q", test.inputs_q},
                                                                  {"inputs_k", test.inputs_k},
                                                                  {"inputs_v", test.inputs_v},
                                                                  {"mask", test.mask},
                                                                  {"output", test.output}};
    for (const auto& [name, tensor] : tensors) {
      if (tensor != nullptr) AddTensor(absl::StrCat("self_test/", name), tensor->dtype, tensor->shape, tensor->data);
    }
    map_.metadata["self_test_tolerance"] = absl::StrFormat("%.17g", test.tolerance);
  }

  void AddOwned(const char* name, DType dtype, const server::Shape& shape, std::vector<std::byte> bytes) {
    map_.storage.push_back(std::move(bytes));
    AddTensor(name, dtype, shape, map_.storage.back());
  }

  void AddTensor(absl::string_view name, DType dtype, const server::Shape& shape, absl::Span<const std::byte> data) {
    map_.tensors.push_back({absl::StrCat(prefix_, name), dtype, shape, data});
  }

  TensorMap map_;
  std::string prefix_;
};

}  // namespace

TensorMap InFlaxLayout(const server::CheckpointLayers& checkpoint) {
  Writer writer;
  for (const LayerTensors& layer : checkpoint.layers) writer.Add(layer);
  TensorMap map = std::move(writer).Finish();
  map.metadata["format"] = "flax";
  return map;
}

}  // namespace attention::cli
