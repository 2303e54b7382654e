#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/weights/registry.h"

namespace attention::server {

// A checkpoint as it is served after a load or an upload.
struct Published {
  std::string checkpoint;
  int64_t version = 0;
  std::string sha256;                        // of the file, in lower case hexadecimal digits
  std::string format;                        // FormatName
  bool unchanged = false;                    // the content was the highest version already: nothing was done
  std::vector<ServedWeightSet> weight_sets;  // of the version, sorted by name
  std::vector<std::string> unused_tensors;   // sorted; those that belong to no layer
};

// What attention.v1.UploadHeader says.
struct UploadOptions {
  std::string checkpoint;
  int64_t bytes = 0;
  std::string sha256 = "";  // empty: not known
  int64_t num_heads = 0;    // 0: as the file's metadata says
};

// A checkpoint on its way onto the disk. Repository::BeginUpload makes it. One thread at a time may use it, not always
// the same; any number of uploads may run at the same time, of one name too. The destructor removes what was written if
// it was not committed; it does not wait.
class Upload {
 public:
  virtual ~Upload() = default;

  // Takes the next bytes: writes and hashes them, which takes about as long as copying them twice. Once the header is
  // there the whole checkpoint is checked but for its numbers, which takes longer the longer the header is.
  //
  // Errors, after which the upload can only be destroyed: as Repository::LoadCheckpoint for what is wrong with the
  // header; INVALID_ARGUMENT for more bytes than announced; RESOURCE_EXHAUSTED if the disk is full.
  virtual absl::Status Write(absl::string_view chunk) = 0;

  // Checks size and digest, packs the layers and runs their self-tests, makes the file durable, and serves it as the
  // next version. To be called once, on the loader's thread. An error changes nothing: INVALID_ARGUMENT for fewer bytes
  // than announced or another digest; else as Repository::LoadCheckpoint.
  virtual absl::StatusOr<Published> Commit() = 0;
};

}  // namespace attention::server
