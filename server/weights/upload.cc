#include "server/weights/upload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/runtime/catch_exceptions.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

}  // namespace

absl::Status Upload::Write(absl::string_view chunk) {
  return CatchExceptions("writing a part of an upload", [&] { return Append(chunk); });
}

absl::Status Upload::Append(absl::string_view chunk) {
  if (chunk.size() > mapping_.bytes().size() - written_) {
    return FieldError("chunk", absl::StrCat("at most header.bytes ", options_.bytes, " bytes in total"),
                      written_ + chunk.size());
  }
  const auto offset = static_cast<int64_t>(written_);
  if (auto status = repository_->store_.disk().WriteAt(file_->file(), offset, Bytes(chunk)); !status.ok()) {
    return status;
  }
  digest_.Update(Bytes(chunk));
  written_ += chunk.size();
  return CheckHeader();
}

// Does nothing until the description of the tensors is complete. Does nothing after the last byte either: Commit then
// parses the file, one upload at a time, so that only one npz file is inflated at a time.
absl::Status Upload::CheckHeader() {
  const size_t size = mapping_.bytes().size();
  if (parsed_ || written_ == size || written_ < std::min(kFormatBytes, size)) return absl::OkStatus();
  const auto prefixed = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("checkpoint ", options_.checkpoint, ": ", status.message()));
  };
  if (format_ == nullptr) {
    const auto format = RecogniseFormat(written(), size);
    if (!format.ok()) return prefixed(format.status());
    format_ = *format;
  }
  if (!format_->header_first) {
    // Each check reads these formats from the start; doubling keeps the total linear.
    if (written_ < next_check_) return absl::OkStatus();
    next_check_ = 2 * written_;
  }
  const auto is_complete = format_->has_header(written(), size);
  if (!is_complete.ok()) return prefixed(is_complete.status());
  if (!*is_complete) return absl::OkStatus();
  auto parsed = repository_->loader_.Parse(options_.checkpoint, mapping_.bytes(), options_.num_heads);
  if (!parsed.ok()) return parsed.status();
  // Other versions of the checkpoint are not counted yet: this upload may have the same content and share their memory.
  if (auto status = repository_->loader_.CheckFits(options_.checkpoint, *parsed); !status.ok()) return status;
  parsed_ = *std::move(parsed);
  return absl::OkStatus();
}

absl::StatusOr<Published> Upload::Commit() {
  if (written_ != mapping_.bytes().size()) {
    return FieldError("header.bytes", absl::StrCat(options_.bytes, " bytes in chunks"), written_);
  }
  sha256_ = digest_.Finish();
  if (!options_.sha256.empty() && options_.sha256 != sha256_) {
    return FieldError("header.sha256", options_.sha256, sha256_);
  }
  return repository_->Publish(*this);
}

}  // namespace attention::server
