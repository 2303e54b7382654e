#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "server/checkpoint/sha256.h"
#include "server/weights/blob_store.h"
#include "server/weights/checkpoint_loader.h"
#include "server/weights/disk.h"
#include "server/weights/registry.h"
#include "server/weights/upload.h"

namespace attention::server {

// An upload that has come whole.
struct UploadedFile {
  TemporaryFile& file;
  absl::Span<const std::byte> bytes;
  std::string sha256;
  const ParsedCheckpoint* parsed = nullptr;  // null: its header was not read yet
};

// An upload into a temporary file.
class BlobUpload final : public Upload {
 public:
  // What it needs of the repository; outlives it.
  struct Context {
    const Disk* disk = nullptr;
    const Registry* registry = nullptr;
    int64_t max_weight_bytes = 0;
    std::function<absl::StatusOr<Published>(const UploadOptions& options, const UploadedFile& uploaded)> publish;
  };

  // REQUIRES: the file has room for all bytes, and `mapping` is all of them.
  BlobUpload(UploadOptions options, const Context& context, std::unique_ptr<TemporaryFile> file, FileMapping mapping)
      : options_(std::move(options)), context_(context), file_(std::move(file)), mapping_(std::move(mapping)) {}

  absl::Status Write(absl::string_view chunk) override;
  absl::StatusOr<Published> Commit() override;

 private:
  absl::Status Take(absl::string_view chunk);

  // Does nothing until there is enough to check.
  absl::Status CheckHeader();

  absl::Span<const std::byte> written() const { return mapping_.bytes().first(written_); }

  const UploadOptions options_;
  const Context context_;
  const std::unique_ptr<TemporaryFile> file_;
  const FileMapping mapping_;

  size_t written_ = 0;
  size_t next_check_ = 0;  // for formats whose beginning is read anew each time
  Sha256 digest_;
  std::optional<CheckpointFormat> format_;
  std::optional<ParsedCheckpoint> parsed_;
};

}  // namespace attention::server
