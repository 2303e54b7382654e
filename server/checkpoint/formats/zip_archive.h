#pragma once

#include <zip.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/byte_source.h"

namespace attention::server {

// A zip file that libzip reads from a ByteSource, which must outlive it. Errors are INVALID_ARGUMENT for a damaged
// file, or the error of the ByteSource. Not thread-safe.
class ZipArchive {
 public:
  // `flags` as zip_open.
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(const ByteSource& file, int flags);

  zip_t* get() const { return archive_.get(); }

  // The error of the last call of libzip. `field` must be escaped.
  absl::Status Error(absl::string_view field) const { return Error(field, zip_get_error(archive_.get())); }

  // Reads the bytes of an entry from its start, in order.
  class Entry {
   public:
    // Fills `to`. An entry that ends earlier is an error.
    absl::Status Read(absl::Span<std::byte> to);

    // Checks that nothing is left, and the checksum.
    absl::Status Finish();

   private:
    friend class ZipArchive;

    struct Close {
      void operator()(zip_file_t* entry) const { zip_fclose(entry); }
    };

    absl::StatusOr<size_t> ReadSome(absl::Span<std::byte> to);

    const ZipArchive* archive_ = nullptr;
    std::string field_;
    std::unique_ptr<zip_file_t, Close> entry_;
  };

  // `field`, escaped, is the start of all errors of the entry.
  absl::StatusOr<Entry> OpenEntry(uint64_t index, std::string field) const;

 private:
  // The file as libzip sees it.
  struct Input {
    const ByteSource& file;
    uint64_t position = 0;
    absl::Status status;  // the first error of `file`
    zip_error_t error;
  };

  struct Discard {
    void operator()(zip_t* archive) const { zip_discard(archive); }
  };

  explicit ZipArchive(const ByteSource& file);

  static zip_int64_t Command(void* input, void* data, zip_uint64_t size, zip_source_cmd_t command);
  absl::Status Error(absl::string_view field, zip_error_t* error) const;

  Input input_;
  std::unique_ptr<zip_t, Discard> archive_;  // destroyed before its input
};

}  // namespace attention::server
