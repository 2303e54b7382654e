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
  if (chunk.size() > bytes_.size() - written_) {
    return FieldError("chunk", absl::StrCat("at most header.bytes ", options_.bytes, " bytes in total"),
                      written_ + chunk.size());
  }
  const auto offset = static_cast<int64_t>(written_);
  if (auto status = repository_->store_.WriteAt(*file_, offset, Bytes(chunk)); !status.ok()) return status;
  digest_.Update(Bytes(chunk));
  written_ += chunk.size();
  return CheckHeader();
}

// Does nothing until the description of the tensors is complete. Does nothing after the last byte either: Commit then
// parses the file, one upload at a time, so that only one npz file is inflated at a time.
absl::Status Upload::CheckHeader() {
  if (parsed_ || written_ == bytes_.size() || written_ < std::min<uint64_t>(kFormatBytes, bytes_.size())) {
    return absl::OkStatus();
  }
  absl::Status status = format_ == nullptr ? FindFormat() : absl::OkStatus();
  if (status.ok() && written_ < header_end_) status = CheckStart();
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("checkpoint ", options_.checkpoint, ": ", status.message()));
  }
  if (written_ < header_end_) return absl::OkStatus();
  auto parsed = repository_->loader_.Parse(options_.checkpoint, bytes_, options_.num_heads);
  if (!parsed.ok()) return parsed.status();
  // Other versions of the checkpoint are not counted yet: this upload may have the same content and share their memory.
  if (auto fits = repository_->loader_.CheckFits(options_.checkpoint, *parsed); !fits.ok()) return fits;
  parsed_ = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status Upload::FindFormat() {
  const auto start = ReadRange(bytes_, 0, std::min<uint64_t>(kFormatBytes, bytes_.size()));
  if (!start.ok()) return start.status();
  const auto format = RecogniseFormat(*start, bytes_.size());
  if (!format.ok()) return format.status();
  const auto header_end = (*format)->header_end(*start, bytes_.size());
  if (!header_end.ok()) return header_end.status();
  format_ = *format;
  header_end_ = *header_end;
  return absl::OkStatus();
}

// Finds a damaged file before it has arrived as a whole. Each check reads the file from its start; doubling keeps the
// total linear. Damage after the first bytes is found by Commit: until then no upload needs more memory than these.
absl::Status Upload::CheckStart() {
  constexpr uint64_t kMostBytes = 1 << 20;
  if (format_->check_start == nullptr || written_ < next_check_ || written_ > kMostBytes) return absl::OkStatus();
  next_check_ = 2 * written_;
  const auto start = ReadRange(bytes_, 0, written_);
  return start.ok() ? format_->check_start(*start) : start.status();
}

absl::StatusOr<Published> Upload::Commit() {
  if (written_ != bytes_.size()) {
    return FieldError("header.bytes", absl::StrCat(options_.bytes, " bytes in chunks"), written_);
  }
  sha256_ = digest_.Finish();
  if (!options_.sha256.empty() && options_.sha256 != sha256_) {
    return FieldError("header.sha256", options_.sha256, sha256_);
  }
  return repository_->Publish(*this);
}

}  // namespace attention::server
