#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/file.h"
#include "server/checkpoint/sha256.h"
#include "server/weights/loader.h"
#include "server/weights/registry.h"
#include "server/weights/store/store.h"

namespace attention::server {

class Repository;

// The highest version of a checkpoint, as a load or an upload serves it.
struct Published {
  std::string checkpoint;
  int64_t version = 0;
  std::string sha256;                        // of the file, in lower case hexadecimal digits
  std::string format;                        // CheckpointFormat::name
  bool unchanged = false;                    // the highest version had this content already: nothing was done
  std::vector<ServedWeightSet> weight_sets;  // of the version, sorted by name
  std::vector<std::string> unused_tensors;   // that belong to no layer; sorted
  std::vector<int64_t> dropped_versions;     // that are no longer kept; sorted

  // Of the version before, which this version does not have; sorted.
  std::vector<std::string> removed_weight_sets;
};

// See attention.v1.UploadHeader.
struct UploadOptions {
  std::string checkpoint;
  int64_t bytes = 0;
  std::string sha256 = "";  // empty: not checked
  int64_t num_heads = 0;    // 0: as the metadata of the file says
  bool replace = false;     // accept a file that lacks weight sets of the version before
};

// A checkpoint that is being uploaded, created by Repository::BeginUpload. Any number of uploads may run at the same
// time, also of one checkpoint. One thread at a time may use an upload. The destructor removes what was written unless
// the upload was committed; it does not wait.
class Upload {
 public:
  // REQUIRES: `file` has space for options.bytes. `repository` must outlive this.
  Upload(UploadOptions options, Repository* repository, std::unique_ptr<TemporaryFile> file)
      : options_(std::move(options)),
        repository_(repository),
        file_(std::move(file)),
        bytes_(file_->file(), static_cast<uint64_t>(options_.bytes), "its file") {}

  // Writes and hashes the next bytes, which takes about as long as copying them twice. As soon as the tensors are
  // described, checks everything except their values; this takes time in proportion to the description.
  //
  // After an error the upload can only be destroyed. Errors as Repository::LoadCheckpoint for what the header shows;
  // INVALID_ARGUMENT for more bytes than announced; RESOURCE_EXHAUSTED if the disk is full or
  // max_weight_storage is reached.
  absl::Status Write(absl::string_view chunk);

  // Checks size and digest, packs the layers, runs their self-tests, makes the file durable, and serves it as the next
  // version. To be called once, on the loader thread. An error changes nothing: INVALID_ARGUMENT for fewer bytes than
  // announced or another digest; else as Repository::LoadCheckpoint.
  absl::StatusOr<Published> Commit();

 private:
  friend class Repository;

  absl::Status Append(absl::string_view chunk);
  absl::Status CheckHeader();
  absl::Status FindFormat();
  absl::Status CheckStart();

  const UploadOptions options_;
  Repository* const repository_;
  const std::unique_ptr<TemporaryFile> file_;
  const FileReader bytes_;

  uint64_t written_ = 0;
  uint64_t header_end_ = 0;  // set with format_
  uint64_t next_check_ = 0;  // bytes at which CheckStart examines the file again
  Sha256 digest_;
  std::string sha256_;                        // set by Commit
  const CheckpointFormat* format_ = nullptr;  // null: not known yet
  std::optional<ParsedCheckpoint> parsed_;
};

}  // namespace attention::server
