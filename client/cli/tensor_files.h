#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace attention::cli {

// Tensors of .safetensors and .npy files, the only place of the tool that knows these formats. An argument is FILE or
// FILE:TENSOR, where TENSOR is a name in a .safetensors file.

// Reads one tensor. Without TENSOR it is the one called `default_name`, or else the only one of the file.
// NOT_FOUND for no such file or tensor, INVALID_ARGUMENT for a damaged file, another kind of file, or a type that the
// client library does not have.
absl::StatusOr<Tensor> ReadTensor(const std::string& argument, const std::string& default_name);

struct TensorToWrite {
  std::string argument;
  std::string default_name;  // in a .safetensors file, unless the argument says TENSOR
  TensorRef tensor;
};

// Writes each tensor where its argument says, over what was there; those of one .safetensors file go there together.
// INVALID_ARGUMENT for two tensors in one .npy file or under one name, and for bfloat16 in .npy, which has no such
// type.
absl::Status WriteTensors(const std::vector<TensorToWrite>& tensors);

// Writes one .safetensors file of all these tensors by their names.
absl::Status WriteSafetensors(const std::string& file, const std::map<std::string, Tensor>& tensors);

}  // namespace attention::cli
