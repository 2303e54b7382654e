#include "client/cli/tensor_files.h"

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/npy.h"
#include "server/checkpoint/formats/safetensors.h"

namespace attention::cli {
namespace {

using server::NamedTensor;

struct FileArgument {
  std::string file;
  std::string tensor;  // "" if not given
  bool is_npy = false;
};

// A path may contain colons: the argument is split after the last ".npy" or ".safetensors" that a colon or the end
// follows.
absl::StatusOr<FileArgument> ParseFileArgument(const std::string& argument) {
  for (size_t end = argument.size(); end != std::string::npos;
       end = end == 0 ? end - 1 : argument.rfind(':', end - 1)) {
    const std::string file = argument.substr(0, end);
    const bool is_npy = absl::EndsWith(file, ".npy");
    if (!is_npy && !absl::EndsWith(file, ".safetensors")) continue;
    const std::string tensor = end == argument.size() ? "" : argument.substr(end + 1);
    if (is_npy && !tensor.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": an .npy file holds one tensor, without a name"));
    }
    return FileArgument{file, tensor, is_npy};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected FILE.safetensors, FILE.safetensors:NAME or FILE.npy, got ", argument));
}

absl::Status InFile(const std::string& file, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), file)) return status;
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

absl::StatusOr<Tensor> Copy(const NamedTensor& from, const std::string& file) {
  // Both enumerations have the numbers of attention.v1.DataType.
  const auto dtype = static_cast<DataType>(from.dtype);
  if (ElementBytes(dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", from.name, from.name.empty() ? "" : ": ",
                                                   "expected a float type, bool, int32 or int64, got ",
                                                   server::DTypeName(from.dtype)));
  }
  return Tensor{dtype, from.shape, std::string(reinterpret_cast<const char*>(from.data.data()), from.data.size())};
}

absl::StatusOr<Tensor> ReadSafetensors(const FileArgument& argument, absl::Span<const std::byte> bytes,
                                       const std::string& default_name) {
  const absl::StatusOr<server::TensorMap> map = server::ParseSafetensors(bytes);
  if (!map.ok()) return InFile(argument.file, map.status());
  const std::string& name = argument.tensor.empty() ? default_name : argument.tensor;
  const NamedTensor* found = map->Find(name);
  if (found == nullptr && argument.tensor.empty() && map->tensors.size() == 1) found = &map->tensors[0];
  if (found != nullptr && !found->usable.ok()) return InFile(argument.file, found->usable);
  if (found != nullptr) return Copy(*found, argument.file);
  std::string names;
  for (const NamedTensor& tensor : map->tensors) absl::StrAppend(&names, names.empty() ? "" : ", ", tensor.name);
  return absl::NotFoundError(
      absl::StrCat(argument.file, ": no tensor named \"", name, "\"; the file has ", names.empty() ? "none" : names));
}

NamedTensor View(const std::string& name, const TensorRef& tensor) {
  return {name,
          static_cast<server::DType>(tensor.dtype),
          {tensor.shape.begin(), tensor.shape.end()},
          {reinterpret_cast<const std::byte*>(tensor.bytes.data()), tensor.bytes.size()}};
}

absl::Status WriteOneFile(const std::string& file, const absl::StatusOr<std::vector<std::byte>>& bytes) {
  if (!bytes.ok()) return InFile(file, bytes.status());
  return server::WriteFile(file, file, *bytes);
}

}  // namespace

absl::StatusOr<Tensor> ReadTensor(const std::string& argument, const std::string& default_name) {
  const absl::StatusOr<FileArgument> parsed = ParseFileArgument(argument);
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<std::vector<std::byte>> file = server::ReadFile(parsed->file, parsed->file);
  if (!file.ok()) return file.status();
  if (!parsed->is_npy) return ReadSafetensors(*parsed, *file, default_name);
  const absl::StatusOr<server::TensorMap> map = server::ParseNpy(*file);
  if (!map.ok()) return InFile(parsed->file, map.status());
  return Copy(map->tensors[0], parsed->file);
}

absl::Status WriteTensors(const std::vector<TensorToWrite>& tensors) {
  std::map<std::string, std::vector<NamedTensor>> files;
  for (const TensorToWrite& tensor : tensors) {
    const absl::StatusOr<FileArgument> parsed = ParseFileArgument(tensor.argument);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(tensor.default_name, ": ", parsed.status().message()));
    }
    std::vector<NamedTensor>& file = files[parsed->file];
    if (parsed->is_npy && !file.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(parsed->file, ": an .npy file holds one tensor, got two"));
    }
    file.push_back(View(parsed->tensor.empty() ? tensor.default_name : parsed->tensor, tensor.tensor));
  }
  for (const auto& [file, contents] : files) {
    const bool is_npy = absl::EndsWith(file, ".npy");
    const auto bytes = is_npy ? server::SerializeNpy(contents[0]) : server::SerializeSafetensors(contents);
    if (absl::Status status = WriteOneFile(file, bytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::string& file, const std::map<std::string, Tensor>& tensors) {
  std::vector<NamedTensor> views;
  views.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) views.push_back(View(name, tensor));
  return WriteOneFile(file, server::SerializeSafetensors(views));
}

}  // namespace attention::cli
