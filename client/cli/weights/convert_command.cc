#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/number_format.h"
#include "client/cli/weights/flax_layout.h"
#include "client/cli/weights/weights_report.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/formats/format.h"
#include "server/checkpoint/formats/safetensors.h"

namespace attention::cli {
namespace {

constexpr char kExtension[] = ".safetensors";

absl::Status InFile(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

// Beside and then renamed: a server that watches the folder sees all of it or nothing, and what stood there before,
// also the file that was read, stays whole until then.
absl::Status Replace(const std::string& file, absl::Span<const std::byte> bytes) {
  const std::string beside = file + ".part";
  absl::Status status = server::WriteFile(beside, beside, bytes);
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(beside, file, error);
    if (!error) return absl::OkStatus();
    status = absl::ErrnoToStatus(error.value(), file);
  }
  std::filesystem::remove(beside, error);
  return status;
}

// The layer as it was found, and the shapes that its kernels have now.
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

absl::StatusOr<Converted> Convert(absl::Span<const std::byte> file, int64_t num_heads) {
  const absl::StatusOr<const server::CheckpointFormat*> format = server::RecogniseFormat(file, file.size());
  if (!format.ok()) return format.status();
  const absl::StatusOr<server::TensorMap> tensors = (*format)->parse(file, server::kUnlimitedBytes);
  if (!tensors.ok()) return tensors.status();
  // The name of the weight sets is not written, but a PATH must make a good one.
  const absl::StatusOr<server::CheckpointLayers> found = server::FindLayers("c", *tensors, {.num_heads = num_heads});
  if (!found.ok()) return found.status();
  const server::TensorMap flax = InFlaxLayout(*found);
  absl::StatusOr<std::vector<std::byte>> written = server::SerializeSafetensors(flax.tensors, flax.metadata);
  if (!written.ok()) return written.status();
  std::string text = absl::StrCat((*format)->name, ", ", CountOf(static_cast<int64_t>(found->layers.size()), "layer"),
                                  "\n", LayersTable(*found));
  if (!found->unused_tensors.empty()) {
    absl::StrAppend(&text, "tensors that belong to no attention layer: ", absl::StrJoin(found->unused_tensors, ", "),
                    "\n");
  }
  return Converted{*std::move(written), std::move(text)};
}

}  // namespace

absl::StatusOr<std::string> Run(const ServerOptions&, const ConvertOptions& options) {
  if (!absl::EndsWith(options.out, kExtension)) {
    return absl::InvalidArgumentError(absl::StrCat(options.out, ": wanted a name that ends in ", kExtension));
  }
  const absl::StatusOr<server::MappedFile> file = server::MappedFile::Open(options.in, options.in);
  if (!file.ok()) return file.status();
  const absl::StatusOr<Converted> converted = Convert(file->bytes(), options.num_heads);
  if (!converted.ok()) return InFile(options.in, converted.status());
  if (absl::Status status = Replace(options.out, converted->file); !status.ok()) return status;
  return absl::StrCat(options.in, ": ", converted->text, "wrote ", options.out, ", ",
                      FormatBytes(static_cast<int64_t>(converted->file.size())), "\n");
}

}  // namespace attention::cli
