#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "server/checkpoint/formats/safetensors.h"
#include "server/checkpoint/layouts/layers.h"
#include "tests/testing/files/weights.h"

// Shared by the tests of the layouts.
namespace attention::test {

// A safetensors file with these tensors and metadata, parsed.
struct Checkpoint {
  explicit Checkpoint(const Parameters& parameters, const std::map<std::string, std::string>& metadata = {})
      : file(Serialize(parameters)) {
    tensors = server::ParseSafetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}).value();
    tensors.metadata = metadata;
  }

  absl::StatusOr<server::CheckpointLayers> Find(int64_t num_heads = 0) const {
    return server::FindLayers("ocr", tensors, {.num_heads = num_heads});
  }

  std::string file;
  server::TensorMap tensors;
};

inline Parameters operator+(Parameters a, const Parameters& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Parameter Ones(const std::string& name, const server::Shape& shape) {
  return FloatParameter(name, shape, std::vector<float>(*server::ElementCount(shape), 1.0f));
}

// A matrix whose elements are `base` + 10 · row + column.
inline Parameter Counted(const std::string& name, int64_t rows, int64_t columns, float base = 0) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      values.push_back(base + static_cast<float>(10 * row + column));
    }
  }
  return FloatParameter(name, {rows, columns}, values);
}

// A fault in an otherwise valid layer, and the error that it causes.
struct LayoutFault {
  std::string name;
  std::function<void(Parameters&)> damage;
  std::string message;
};

inline void PrintTo(const LayoutFault& fault, std::ostream* out) { *out << fault.name; }

// Replaces one parameter by ones in another shape.
inline std::function<void(Parameters&)> Reshape(const std::string& name, const server::Shape& shape) {
  return [=](Parameters& parameters) {
    for (Parameter& parameter : parameters) {
      if (parameter.name == name) parameter = Ones(name, shape);
    }
  };
}

inline std::function<void(Parameters&)> Remove(const std::string& name) {
  return [=](Parameters& parameters) { std::erase_if(parameters, [&](const Parameter& p) { return p.name == name; }); };
}

inline std::function<void(Parameters&)> Add(const Parameters& more) {
  return [=](Parameters& parameters) { parameters = parameters + more; };
}

inline std::function<void(Parameters&)> MakeIntegers(const std::string& name) {
  return [=](Parameters& parameters) {
    for (Parameter& parameter : parameters) {
      if (parameter.name == name) parameter.dtype = server::DType::kInt32;
    }
  };
}

}  // namespace attention::test
