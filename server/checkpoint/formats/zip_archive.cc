#include "server/checkpoint/formats/zip_archive.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

// libzip's own texts differ between its versions.
absl::string_view Reason(int zip_error) {
  switch (zip_error) {
    case ZIP_ER_NOZIP:
      return "expected a zip archive, got a file without a directory of entries at its end";
    case ZIP_ER_INCONS:
      return "expected headers that agree, got an inconsistent zip archive";
    case ZIP_ER_CRC:
      return "expected data with the stated CRC-32, got another";
    case ZIP_ER_ZLIB:
    case ZIP_ER_COMPRESSED_DATA:
      return "expected deflated data, got damaged data";
    case ZIP_ER_EOF:
      return "expected more data, got the end of the file";
    default:
      return "expected a readable zip archive";
  }
}

}  // namespace

ZipArchive::ZipArchive(const ByteSource& file) : input_{file, 0, {}, {}} { zip_error_init(&input_.error); }

absl::Status ZipArchive::Error(absl::string_view field, zip_error_t* error) const {
  if (!input_.status.ok()) {
    return absl::Status(input_.status.code(), absl::StrCat(field, ": ", input_.status.message()));
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", Reason(zip_error_code_zip(error)),
                                                 " (libzip: ", EscapeForMessage(zip_error_strerror(error)), ")"));
}

zip_int64_t ZipArchive::Command(void* input, void* data, zip_uint64_t size, zip_source_cmd_t command) {
  auto& [file, position, status, error] = *static_cast<Input*>(input);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                            ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                            ZIP_SOURCE_SUPPORTS, -1);
    case ZIP_SOURCE_OPEN:
      position = 0;
      return 0;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:  // the archive owns its input
      return 0;
    case ZIP_SOURCE_READ: {
      const uint64_t count = std::min<uint64_t>(size, file.size() - position);
      absl::Status read = file.Read(position, {static_cast<std::byte*>(data), static_cast<size_t>(count)});
      if (!read.ok()) {
        status.Update(std::move(read));
        zip_error_set(&error, ZIP_ER_READ, EIO);
        return -1;
      }
      position += count;
      return static_cast<zip_int64_t>(count);
    }
    case ZIP_SOURCE_STAT: {
      auto* const info = static_cast<zip_stat_t*>(data);
      zip_stat_init(info);
      info->size = file.size();
      info->valid |= ZIP_STAT_SIZE;
      return sizeof(*info);
    }
    case ZIP_SOURCE_SEEK: {
      const zip_int64_t target = zip_source_seek_compute_offset(position, file.size(), data, size, &error);
      if (target < 0) return -1;
      position = static_cast<uint64_t>(target);
      return 0;
    }
    case ZIP_SOURCE_TELL:
      return static_cast<zip_int64_t>(position);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&error, data, size);
    default:
      zip_error_set(&error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(const ByteSource& file, int flags) {
  std::unique_ptr<ZipArchive> archive(new ZipArchive(file));
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_function_create(Command, &archive->input_, &error);
  if (source != nullptr) {
    archive->archive_.reset(zip_open_from_source(source, ZIP_RDONLY | flags, &error));
    if (archive->archive_ == nullptr) zip_source_free(source);
  }
  const absl::Status status = archive->archive_ == nullptr ? archive->Error("npz", &error) : absl::OkStatus();
  zip_error_fini(&error);
  if (!status.ok()) return status;
  return archive;
}

absl::StatusOr<ZipArchive::Entry> ZipArchive::OpenEntry(uint64_t index, std::string field) const {
  Entry entry;
  entry.archive_ = this;
  entry.field_ = std::move(field);
  entry.entry_.reset(zip_fopen_index(archive_.get(), index, 0));
  if (entry.entry_ == nullptr) return Error(entry.field_);
  return entry;
}

absl::StatusOr<size_t> ZipArchive::Entry::ReadSome(absl::Span<std::byte> to) {
  const zip_int64_t read = zip_fread(entry_.get(), to.data(), to.size());
  if (read < 0) return archive_->Error(field_, zip_file_get_error(entry_.get()));
  return static_cast<size_t>(read);
}

absl::Status ZipArchive::Entry::Read(absl::Span<std::byte> to) {
  while (!to.empty()) {
    const absl::StatusOr<size_t> count = ReadSome(to);
    if (!count.ok()) return count.status();
    if (*count == 0) return FieldError(field_, absl::StrCat(to.size(), " more bytes"), "the end of the entry");
    to.remove_prefix(*count);
  }
  return absl::OkStatus();
}

// libzip compares the checksum when it reaches the end.
absl::Status ZipArchive::Entry::Finish() {
  std::byte extra;
  const absl::StatusOr<size_t> count = ReadSome({&extra, 1});
  if (!count.ok()) return count.status();
  return *count == 0 ? absl::OkStatus() : FieldError(field_, "the end of the entry", "more bytes");
}

}  // namespace attention::server
