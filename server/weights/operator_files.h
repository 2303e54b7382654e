#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/weights/disk.h"
#include "server/weights/manifest.h"

namespace attention::server {

// The checkpoints that operators put into the weights folder: DIR/NAME.safetensors, .msgpack or .npz.
//
// Never looks outside of the folder: a symbolic link counts as missing unless it ends inside. Entries whose name begins
// with a dot are never looked at; links to folders are not followed.

// The files of one checkpoint, by extension ("npz"). More than one is a mistake of the operator.
using OperatorFiles = std::map<std::string, FileIdentity>;

// All of them, by the checkpoint's name. NOT_FOUND, with its path, if the folder cannot be read, so that files that
// cannot be seen are not taken for some that went. Folders below that the server may not read are left out. Names are
// not checked.
absl::StatusOr<std::map<std::string, OperatorFiles>> FindOperatorFiles(const std::string& dir);

// Those of one checkpoint.
OperatorFiles FindOperatorFiles(const std::string& dir, const std::string& checkpoint);

// One of them, mapped as it was when it was opened.
struct OpenOperatorFile {
  FileDescriptor file;
  FileIdentity identity;
  FileMapping mapping;

  // False if it was written to in place since it was opened, so that what was read may be of no one state.
  bool IsUnchanged() const;
};

// NOT_FOUND if there is none within the folder any more; FAILED_PRECONDITION if there is one that cannot be opened.
absl::StatusOr<OpenOperatorFile> OpenFile(const std::string& dir, const std::string& checkpoint,
                                          const std::string& extension);

// The path of the entry in the folder, without following it.
std::string OperatorFilePath(const std::string& dir, const std::string& checkpoint, const std::string& extension);

// True if a file of this identity can be told from a later state of it: it has not changed for longer than the clock of
// its file system takes for a step.
bool IsSettled(const FileIdentity& identity, absl::Time now);

}  // namespace attention::server
