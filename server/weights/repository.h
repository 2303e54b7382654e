#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/weights/disk.h"
#include "server/weights/registry.h"
#include "server/weights/self_test.h"
#include "server/weights/upload.h"

namespace attention::server {

struct RepositoryOptions {
  // The weights folder. Empty: a folder with nothing in it, in which nothing can be written.
  std::string dir;

  // Most bytes that the weight sets may take, in float32, all checkpoints and versions together. What a change drops
  // does not count. Flag --max-weight-bytes.
  int64_t max_weight_bytes = std::numeric_limits<int64_t>::max();

  // Computes a layer for its self-test. Null: there are no self-tests.
  ComputeSelfTest compute_self_test = nullptr;

  // Called when something was unloaded or deleted, so that its memory goes back to the system. May be null.
  std::function<void()> give_back_memory = nullptr;

  // For tests: see Disk; and what time it is.
  Disk::BeforeStep before_disk_step = nullptr;
  std::function<absl::Time()> now = absl::Now;
};

struct LoadOptions {
  // Of every layer whose heads cannot be seen from its shapes. 0: as the file's metadata says.
  int64_t num_heads = 0;
};

// The checkpoints on the disk, and the one writer of the registry. See attention.v1.WeightService for what versions and
// aliases are, and what each call promises.
//
// The operator's files: DIR/shop/ocr.safetensors, .msgpack or .npz is the checkpoint "shop/ocr". The server reads them;
// Delete removes them. It never looks outside of the folder (a symbolic link counts as missing unless it ends inside),
// nor at names that begin with a dot. New content in a file is the next version of its checkpoint.
//
// The server's own: DIR/.attention, see BlobStore. If that cannot be written (no permission, a read-only mount, another
// server that uses the folder) loads and unloads work as ever, but what they change lasts only as long as the process;
// uploads, deletes and alias moves are FAILED_PRECONDITION.
//
// Every change is on the disk before it is served, and is served before the call returns; after a crash at any moment
// LoadAll serves what was acknowledged, perhaps with the change that was not yet. A change that fails changes nothing.
//
// Thread-safe. Changes wait for each other, and a load can take minutes: they belong on a thread of their own. Calls
// that use weight sets wait for nothing. Only messages of LoadAll hold the path of
// the folder.
class Repository {
 public:
  struct StartReport {
    int loaded = 0;                   // checkpoints that are served
    std::vector<std::string> broken;  // "ocr: why", of what could not be served; logged already
  };

  // `registry` must outlive this.
  Repository(RepositoryOptions options, Registry* registry);
  ~Repository();

  // Reads what the folder holds, finishes or removes what a crash left behind, and serves every checkpoint that was not
  // unloaded. What is broken is reported and skipped. To be called once, before all others. NOT_FOUND if the folder
  // cannot be read.
  absl::StatusOr<StartReport> LoadAll();

  // Serves the operator's file of that name as the next version, unless its content is the highest version; without a
  // file serves again what was unloaded.
  //
  // INVALID_ARGUMENT for a bad name, a damaged file, one without an attention layer, or two files of the name;
  // NOT_FOUND if there is nothing of that name; UNIMPLEMENTED for a file of a format that is known but not read;
  // FAILED_PRECONDITION if a self-test fails; ALREADY_EXISTS if another checkpoint serves a weight set of the same
  // name; RESOURCE_EXHAUSTED, before any weight is read, if the limit would be passed.
  absl::StatusOr<Published> LoadCheckpoint(absl::string_view checkpoint, const LoadOptions& options = {});

  // Makes room on the disk for a checkpoint that comes in pieces. The repository must outlive the upload.
  // INVALID_ARGUMENT for a bad name, size or digest; FAILED_PRECONDITION if the folder cannot be written;
  // RESOURCE_EXHAUSTED if the disk has not so much room.
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(const UploadOptions& options);

  // Stops serving a checkpoint until LoadCheckpoint; returns the highest version that was served. NOT_FOUND if it is
  // not served.
  absl::StatusOr<int64_t> Unload(absl::string_view checkpoint);

  // Deletes one version, or with 0 all of them, the aliases and the operator's file; an operator's file whose content
  // is the one version goes too. Returns the versions that are gone, sorted. NOT_FOUND if there is no such checkpoint
  // or version; FAILED_PRECONDITION if an alias names the one version, or the folder cannot be written.
  absl::StatusOr<std::vector<int64_t>> Delete(absl::string_view checkpoint, int64_t version);

  // Lets an alias name a version, or with 0 removes it; returns what it named before, 0 if it was not there. With
  // `expected` only if that is what it names now (0: not there), else ABORTED with what it names. INVALID_ARGUMENT for
  // a bad name; NOT_FOUND if there is no such checkpoint or version; FAILED_PRECONDITION if the version is broken, or
  // the folder cannot be written.
  absl::StatusOr<int64_t> SetAlias(absl::string_view checkpoint, absl::string_view alias, int64_t version,
                                   std::optional<int64_t> expected = std::nullopt);

  // Looks for operator's files that came, changed or went since the last call. To be called about once a second: a file
  // is taken when two calls found the same size, time and inode. One that cannot be loaded is logged once, and tried
  // again when it changes; a checkpoint whose file went serves on only what DIR/.attention holds of it. Unloaded
  // checkpoints stay unloaded.
  void PollFolder();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attention::server
