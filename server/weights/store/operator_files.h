#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/checkpoint/file.h"
#include "server/weights/store/disk.h"
#include "server/weights/store/manifest.h"

namespace attention::server {

// The checkpoints that operators put into the weights folder: DIR/NAME.safetensors, .msgpack or .npz.
//
// Nothing outside of the folder is read: a symbolic link counts as missing unless its target is inside. Entries whose
// name begins with a dot are skipped; links to folders are not followed.

// The files of one checkpoint, by extension ("npz"). More than one is a mistake of the operator.
using OperatorFiles = std::map<std::string, FileIdentity>;

struct FolderContent {
  std::map<std::string, OperatorFiles> files;  // by checkpoint name
  std::map<std::string, std::string> skipped;  // by path below the folder: why a file or link is not read
};

// All operator's files. NOT_FOUND, with the path, if the folder cannot be read, so that an unreadable folder is not
// mistaken for an empty one. Unreadable subfolders are skipped. Names are not checked.
absl::StatusOr<FolderContent> FindOperatorFiles(const std::string& dir);

// The files of one checkpoint.
OperatorFiles FindOperatorFiles(const std::string& dir, const std::string& checkpoint);

// An open operator's file.
struct OperatorFile {
  FileDescriptor file;
  FileIdentity identity;  // when it was opened
  FileReader bytes;
  std::string sha256;

  // `identity`, or nullopt if the file changed so recently that a later change may leave the identity the same.
  std::optional<FileIdentity> settled_identity;

  // ABORTED if the file was written in place after it was opened, so that the bytes read may be a mixture of two
  // states.
  absl::Status CheckUnchanged() const;
};

// Opens the operator's file of a checkpoint, ignoring known.deleted_files. nullopt if there is none. The digest is
// taken from known.file if the file has the identity recorded there, else computed. INVALID_ARGUMENT, with both names,
// if there are two files; FAILED_PRECONDITION if the file cannot be opened; as FileReader::Read if it cannot be read.
absl::StatusOr<std::optional<OperatorFile>> OpenOperatorFile(const std::string& dir, const std::string& checkpoint,
                                                             const ManifestCheckpoint& known, absl::Time now);

// Removes those of `files` that still have the given identity, durably.
absl::Status RemoveOperatorFiles(const Disk& disk, const std::string& dir, const std::string& checkpoint,
                                 const OperatorFiles& files);

// Detects which checkpoints' files were added, changed or removed between calls. A state is reported once two
// consecutive calls have seen it and it is settled, so that a file is not read while it is being copied. Not
// thread-safe.
class FolderWatch {
 public:
  using Files = std::map<std::string, OperatorFiles>;  // by checkpoint

  // The files that were loaded at the start.
  void Begin(Files files, absl::Time now);

  // The checkpoints whose files have a state that was not reported before, sorted; also those whose files were removed.
  std::vector<std::string> Update(Files files, absl::Time now);

 private:
  Files seen_;      // by the last call
  Files reported_;  // as they were when they were last reported
};

}  // namespace attention::server
