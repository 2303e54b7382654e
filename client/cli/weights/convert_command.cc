#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/text_format.h"
#include "client/cli/weights/weights_report.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/safetensors.h"
#include "server/checkpoint/formats/tensor_map.h"
#include "server/checkpoint/layouts/layers.h"
#include "server/checkpoint/layouts/loaded_layer.h"
#include "server/checkpoint/names.h"

namespace attention::cli {
namespace {

using server::DType;
using server::LayerTensors;
using server::NamedTensor;
using server::ParameterSource;
using server::TensorMap;

// A tensor of a layer, by its name in the flax layout.
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

// The parameters that the file has.
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

// The biases to add so that the layer has all four, as flax requires; none if it has none.
std::vector<Parameter> MissingBiases(const LayerTensors& layer) {
  std::vector<Parameter> biases = Biases(layer);
  std::erase_if(biases, [](const Parameter& bias) { return bool(*bias.source); });
  if (biases.size() == 4) biases.clear();
  return biases;
}

// The type of all tensors of the layer, or float32 if there are several.
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

// True if the parameter is a whole tensor of the file, unchanged.
bool IsUnchanged(const ParameterSource& source, DType dtype) {
  return !source.transposed && source.tensor->dtype == dtype && source.tensor->shape == source.shape;
}

class FlaxWriter {
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
    if (IsUnchanged(source, dtype)) {
      AddTensor(name, dtype, source.shape, source.tensor->data);
    } else {
      AddOwned(name, dtype, source.shape, Read(source, dtype));
    }
  }

  // Zero has only zero bits in every float type.
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

// The same layers in the layout of flax, PATH/query/kernel and so on, with their self-tests. A layer whose tensors all
// have one float type keeps it, bit for bit; any other becomes float32. If some of the four biases are missing, they
// are written as zeros, since flax has all or none. Points into the tensors of the layers where possible.
TensorMap InFlaxLayout(const std::vector<server::LoadedLayer>& layers) {
  FlaxWriter writer;
  for (const server::LoadedLayer& layer : layers) writer.Add(layer.layer);
  TensorMap map = std::move(writer).Finish();
  map.metadata["format"] = "flax";
  return map;
}

constexpr char kExtension[] = ".safetensors";

absl::Status InFile(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

// Writes a temporary file and renames it, so that a server which watches the folder never sees part of it, and an
// existing file, possibly the input, is kept until then.
absl::Status Replace(const std::string& file, absl::Span<const std::byte> bytes) {
  const std::string temporary = file + ".part";
  absl::Status status = server::WriteFile(temporary, temporary, bytes);
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(temporary, file, error);
    if (!error) return absl::OkStatus();
    status = absl::ErrnoToStatus(error.value(), file);
  }
  std::filesystem::remove(temporary, error);
  return status;
}

// The original path and layout of each layer, and the shapes of its kernels in the new file.
std::string LayersTable(const server::CheckpointLayers& found) {
  std::vector<std::vector<std::string>> rows = {{"PATH", "LAYOUT", "QUERY", "KEY", "VALUE", "OUT"}};
  for (const server::LayerTensors& layer : found.layers) {
    rows.push_back({layer.path.empty() ? "(top)" : layer.path, layer.layout, FormatShape(layer.query.kernel.shape),
                    FormatShape(layer.key.kernel.shape), FormatShape(layer.value.kernel.shape),
                    FormatShape(layer.out.kernel.shape)});
  }
  return FormatTable(rows);
}

struct Converted {
  std::vector<std::byte> file;
  std::string text;
};

absl::StatusOr<Converted> Convert(const server::ByteSource& file, int64_t num_heads) {
  const absl::StatusOr<const server::CheckpointFormat*> format = server::RecogniseFormat(file);
  if (!format.ok()) return format.status();
  const absl::StatusOr<server::TensorMap> tensors = (*format)->describe(file, server::kUnlimitedBytes);
  if (!tensors.ok()) return tensors.status();
  // The checkpoint name is not written. It is needed because FindLayers checks the names of the weight sets.
  const absl::StatusOr<server::CheckpointLayers> found = server::FindLayers("c", *tensors, {.num_heads = num_heads});
  if (!found.ok()) return found.status();
  std::vector<server::LoadedLayer> layers;
  for (const LayerTensors& layer : found->layers) {
    absl::StatusOr<server::LoadedLayer> loaded = server::LoadLayer(layer, *tensors);
    if (!loaded.ok()) return loaded.status();
    layers.push_back(*std::move(loaded));
  }
  const server::TensorMap flax = InFlaxLayout(layers);
  absl::StatusOr<std::vector<std::byte>> written = server::SerializeSafetensors(flax.tensors, flax.metadata);
  if (!written.ok()) return written.status();
  const std::string text = absl::StrCat(
      (*format)->name, ", ", CountOf(static_cast<int64_t>(found->layers.size()), "layer"), "\n", LayersTable(*found));
  return Converted{*std::move(written), text + UnusedTensorsText(found->unused_tensors)};
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions&, const ConvertOptions& options) {
  if (!absl::EndsWith(options.out, kExtension)) {
    return server::FieldError("out", absl::StrCat("FILE", kExtension), options.out);
  }
  const absl::StatusOr<server::OpenedFile> file = server::OpenFile(options.in, options.in);
  if (!file.ok()) return file.status();
  const std::string name = std::filesystem::path(options.in).stem().string();
  if (absl::Status status = server::CheckNotShard(name); !status.ok()) return InFile(options.in, status);
  const absl::StatusOr<Converted> converted = Convert(file->bytes, options.num_heads);
  if (!converted.ok()) return InFile(options.in, converted.status());
  if (absl::Status status = Replace(options.out, converted->file); !status.ok()) return status;
  return absl::StrCat(options.in, ": ", converted->text, "wrote ", options.out, ", ",
                      FormatBytes(static_cast<int64_t>(converted->file.size())), "\n");
}

}  // namespace attention::cli
