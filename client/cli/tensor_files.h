#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace attention::cli {

// Tensors in .safetensors and .npy files. An argument is FILE or FILE:NAME, where NAME is a tensor in a .safetensors
// file.

// Reads one tensor. Without NAME it is the one called `default_name`, or else the only one of the file. NOT_FOUND if
// there is no such file or tensor; INVALID_ARGUMENT if the file is damaged or not of these formats, or the client
// library does not have the tensor's type.
absl::StatusOr<Tensor> ReadTensor(const std::string& argument, const std::string& default_name);

struct TensorToWrite {
  std::string argument;
  std::string default_name;  // in a .safetensors file, unless the argument has a NAME
  TensorRef tensor;
};

// Writes each tensor to its argument and replaces existing files. Tensors with the same .safetensors file are written
// together. INVALID_ARGUMENT for two tensors in one .npy file or with one name, and for bfloat16 in .npy, which does
// not have that type.
absl::Status WriteTensors(const std::vector<TensorToWrite>& tensors);

// Writes all these tensors, by their names, to one .safetensors file.
absl::Status WriteSafetensors(const std::string& file, const std::map<std::string, Tensor>& tensors);

}  // namespace attention::cli
