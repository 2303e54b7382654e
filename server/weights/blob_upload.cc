#include "server/weights/blob_upload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/runtime/catch_exceptions.h"
#include "server/weights/weight_limit.h"

namespace attention::server {
namespace {

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

}  // namespace

absl::Status BlobUpload::Write(absl::string_view chunk) {
  return CatchExceptions("taking a part of an upload", [&] { return Take(chunk); });
}

absl::Status BlobUpload::Take(absl::string_view chunk) {
  if (chunk.size() > mapping_.bytes().size() - written_) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: more bytes than header.bytes, ", options_.bytes));
  }
  const auto offset = static_cast<int64_t>(written_);
  if (auto status = context_.disk->WriteAt(file_->file(), offset, Bytes(chunk)); !status.ok()) return status;
  digest_.Update(Bytes(chunk));
  written_ += chunk.size();
  return CheckHeader();
}

// With the last byte it is too late for an early answer: Commit reads the header then, when it is this upload's turn,
// so that of several npz files only one at a time is inflated.
absl::Status BlobUpload::CheckHeader() {
  const size_t size = mapping_.bytes().size();
  if (parsed_ || written_ == size || written_ < std::min(kFormatBytes, size)) return absl::OkStatus();
  const auto prefix = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("checkpoint ", options_.checkpoint, ": ", status.message()));
  };
  if (!format_) {
    const auto format = RecogniseFormat(written().first(std::min(kFormatBytes, size)), size);
    if (!format.ok()) return prefix(format.status());
    format_ = *format;
  }
  if (*format_ != CheckpointFormat::kSafetensors) {
    if (written_ < next_check_) return absl::OkStatus();
    next_check_ = 2 * written_;
  }
  const auto is_there = HeaderIsThere(*format_, written(), size);
  if (!is_there.ok()) return prefix(is_there.status());
  if (!*is_there) return absl::OkStatus();
  auto parsed = ReadHeader(mapping_.bytes(), {.checkpoint = options_.checkpoint,
                                              .num_heads = options_.num_heads,
                                              .max_weight_bytes = context_.max_weight_bytes});
  if (!parsed.ok()) return parsed.status();
  if (auto status = context_.registry->CheckNames(options_.checkpoint, parsed->names()); !status.ok()) return status;
  // Not yet beside other versions of the checkpoint: this one may turn out to be the same, and to share their memory.
  const CatalogEntry none{options_.checkpoint, {}, {}};
  if (auto status = CheckWeightBytes(*context_.registry, none, parsed->bytes(), context_.max_weight_bytes);
      !status.ok()) {
    return status;
  }
  parsed_ = *std::move(parsed);
  return absl::OkStatus();
}

absl::StatusOr<Published> BlobUpload::Commit() {
  if (written_ != mapping_.bytes().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.bytes: ", options_.bytes, ", but ", written_, " bytes came"));
  }
  const std::string sha256 = digest_.Finish();
  if (!options_.sha256.empty() && options_.sha256 != sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.sha256: ", options_.sha256, ", but the bytes that came have ", sha256));
  }
  return context_.publish(
      options_,
      UploadedFile{
          .file = *file_, .bytes = mapping_.bytes(), .sha256 = sha256, .parsed = parsed_ ? &*parsed_ : nullptr});
}

}  // namespace attention::server
