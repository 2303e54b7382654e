#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/weights/checkpoint_state.h"
#include "server/weights/loader.h"
#include "server/weights/registry.h"
#include "server/weights/store/disk.h"
#include "server/weights/store/operator_files.h"
#include "server/weights/store/store.h"
#include "server/weights/upload.h"

namespace attention::server {

// The states of a version of a checkpoint:
//
//   state      in the manifest          its bytes              in memory  served  after a crash
//   uploading  no                       uploads/               no         no      removed
//   served     yes                      blob, operator's file  yes        yes     served
//   broken     yes                      damaged or missing     no         no      loaded again if it can be read
//   unloaded   yes, loaded = false      blob, operator's file  no         no      unloaded
//   deleting   its file in              operator's file        no         no      its file is removed
//              deleted_files
//   dropped    no                       none                   *          no      does not exist
//
//   * until the last request that uses it has finished
//
// A version stays only while it is among the keep_versions highest or has an alias. "loaded" is a property of the whole
// checkpoint: an unload and the next load concern all its versions. An alias names a version in any state of the
// manifest; it can only be moved to a version that is not broken. The operations move versions as follows; each row
// says what is written first:
//
//   operation       from -> to                                     order of writes
//   BeginUpload     none -> uploading                              temporary file
//   Upload::Commit  uploading -> served, as a new highest          blob, manifest, memory and registry
//                   version; versions that are no longer kept,
//                   and broken ones without alias -> dropped; the
//                   other versions of an unloaded checkpoint ->
//                   served
//   ~Upload         uploading -> none                              temporary file removed
//   LoadCheckpoint  operator's file with new content -> served,    manifest, memory and registry
//                   as Commit; unloaded or broken -> served
//   SetAlias        none for the named version; the version that   blob (if only the operator's file holds the
//                   lost its last alias and is not among the       version), manifest, registry
//                   highest -> dropped
//   Unload          served or broken -> unloaded                   manifest, registry and memory
//   Delete          any -> deleting -> dropped                     manifest, registry, operator's file, manifest
//   PollFolder      as LoadCheckpoint; a version whose bytes only  registry and memory; at the end one manifest
//                   a removed operator's file held -> dropped      for all changes
//   LoadAll         as the last column of the first table; new     as PollFolder
//                   operator's files as LoadCheckpoint
//
// The rename of the manifest is the moment at which an operation takes effect: a crash before it leaves the old state,
// a crash after it the new one. PollFolder and LoadAll acknowledge nothing to a caller: after a crash before their
// manifest, the next start finds the same files and does the same again. If their manifest cannot be written, what they
// loaded is served until the server stops. Blobs that the manifest does not name are removed by the next save or start.

struct RepositoryOptions {
  // The weights folder. Empty: the repository is empty and read-only.
  std::string dir;

  // Limit of the memory of the weight sets in float32, over all checkpoints and versions. Weight sets that a change
  // removes do not count. Flag --max-weight-bytes.
  int64_t max_weight_bytes = std::numeric_limits<int64_t>::max();

  // Limit of the bytes on the disk of stored and arriving uploads. Flag --max-weight-storage.
  int64_t max_weight_storage = std::numeric_limits<int64_t>::max();

  // How many of the highest versions of a checkpoint are kept without an alias, at least 1. All but the highest are
  // dropped if a new version does not fit beside them. Flag --keep-versions.
  int64_t keep_versions = 1;

  // Must outlive the repository. nullptr: self-tests are skipped.
  SelfTestRunner* self_test_runner = nullptr;

  // Called after weight sets were unloaded or deleted, so that their memory is returned to the system. May be null.
  std::function<void()> give_back_memory = nullptr;

  // For tests: see Disk; and the current time.
  Disk::BeforeStep before_disk_step = nullptr;
  std::function<absl::Time()> now = absl::Now;
};

struct LoadOptions {
  // Of every layer whose heads cannot be derived from its shapes. 0: as the metadata of the file says.
  int64_t num_heads = 0;

  // Accept a file that lacks weight sets of the version before.
  bool replace = false;
};

// What a delete removed.
struct Deleted {
  std::vector<int64_t> versions;  // sorted

  // Operator's files, relative to the folder: those that were removed, and those that could not be. The latter are
  // ignored as long as they do not change, and the next start tries again to remove them.
  std::vector<std::string> removed_files;
  std::vector<std::string> remaining_files;
};

// The checkpoints on the disk, and the only writer of the registry. attention.v1.WeightService documents versions,
// aliases and the guarantees of each call.
//
// Operator's files: DIR/shop/ocr.safetensors, .msgpack or .npz is the checkpoint "shop/ocr"; see operator_files.h. New
// content in a file is the next version of its checkpoint. The server reads these files; only Delete removes them.
//
// The server's own files: DIR/.attention, see Store. If the folder cannot be written (missing permission, a read-only
// mount, another server that uses it), loads and unloads work but last only until the server stops; uploads, deletes
// and alias changes are FAILED_PRECONDITION.
//
// Thread-safe. Changes run one at a time, and a load can take minutes, so call them on a thread of their own. Users of
// weight sets never wait for a change. Only error messages of LoadAll contain the path of the folder.
class Repository {
 public:
  struct StartReport {
    int loaded = 0;                   // number of checkpoints that are served
    std::vector<std::string> broken;  // "ocr: reason" for each problem; already logged
  };

  // `registry` must outlive this.
  Repository(RepositoryOptions options, Registry* registry);

  // Reads the folder, finishes or removes what a crash left behind, and serves every checkpoint that is not unloaded.
  // Broken checkpoints are reported and skipped. To be called once, before all other functions. NOT_FOUND if the folder
  // cannot be read.
  absl::StatusOr<StartReport> LoadAll();

  // Serves the operator's file of the checkpoint as the next version, unless its content is that of the highest
  // version. Without an operator's file, serves the versions of an unloaded checkpoint again.
  //
  // INVALID_ARGUMENT for a bad name, a damaged file, a file without an attention layer, or two files of the name;
  // NOT_FOUND if there is no such checkpoint; UNIMPLEMENTED for a known format that is not supported;
  // FAILED_PRECONDITION if a self-test fails, or, without options.replace, if weight sets of the version before are
  // missing in the file; ALREADY_EXISTS if another checkpoint serves a weight set of the same
  // name; RESOURCE_EXHAUSTED, before any weight is read, if max_weight_bytes would be exceeded.
  absl::StatusOr<Published> LoadCheckpoint(absl::string_view checkpoint, const LoadOptions& options = {});

  // Begins an upload, which takes disk space as its bytes arrive. The repository must outlive the upload.
  // INVALID_ARGUMENT for a bad name, size or digest; FAILED_PRECONDITION if the folder cannot be written;
  // RESOURCE_EXHAUSTED if the bytes do not fit on the disk or into max_weight_storage.
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(const UploadOptions& options);

  // Stops serving a checkpoint until LoadCheckpoint; returns the highest version that was served. NOT_FOUND if it is
  // not served.
  absl::StatusOr<int64_t> Unload(absl::string_view checkpoint);

  // Deletes one version; or, if `version` is 0, all versions, the aliases and the operator's file. An operator's file
  // with the content of a deleted version is deleted too. NOT_FOUND if there is no such checkpoint or version;
  // FAILED_PRECONDITION if an alias names the version, or the folder cannot be written. After an error nothing has
  // changed; an operator's file that cannot be removed is none.
  absl::StatusOr<Deleted> Delete(absl::string_view checkpoint, int64_t version);

  // Makes an alias name a version, or removes it if `version` is 0; returns the version that it named before, 0 if it
  // did not exist. If `expected` is given and differs from that version (0: does not exist), ABORTED. INVALID_ARGUMENT
  // for a bad name; NOT_FOUND if there is no such checkpoint or version; FAILED_PRECONDITION if the version is broken,
  // or the folder cannot be written.
  absl::StatusOr<int64_t> SetAlias(absl::string_view checkpoint, absl::string_view alias, int64_t version,
                                   std::optional<int64_t> expected = std::nullopt);

  // Loads operator's files that were added or changed since the last call. Of a checkpoint whose file was removed, only
  // the versions with blobs stay served. Unloaded checkpoints stay unloaded. To be called about once a second: a change
  // is handled when two calls have seen the same size, times and inode. A file that cannot be loaded is logged once and
  // tried again when it changes.
  void PollFolder();

 private:
  friend class Upload;  // uses store_, loader_ and Publish

  // Why an operator's file is read. kCaller serves its content even if a later upload replaced it; kAutomatic, at the
  // start and by PollFolder, serves only new content.
  enum class Trigger { kCaller, kAutomatic };

  struct AliasChange {
    std::string alias;
    int64_t version = 0;
    std::optional<int64_t> expected;
  };

  // An operator's file, if there is one.
  using FoundFile = absl::StatusOr<std::optional<OperatorFile>>;

  // repository.cc
  absl::StatusOr<StartReport> LoadAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ResumeAll(std::set<std::string>& served, std::set<std::string>& failed, StartReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PollFolderLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LogSkipped(std::map<std::string, std::string> skipped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LoadChangedFile(const std::string& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBackMemory() const;

  bool IsUnloaded(const std::string& checkpoint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The current state; an empty one if there is no such checkpoint.
  CheckpointState Find(absl::string_view checkpoint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes `state` the state of its checkpoint, first on the disk, then in the registry, without the versions that are
  // no longer needed. ALREADY_EXISTS if another checkpoint serves one of its weight sets, else as Store::Save; after an
  // error nothing has changed.
  absl::Status Commit(CheckpointState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // repository_loads.cc: changes that load versions.
  absl::StatusOr<Published> Load(const std::string& checkpoint, const LoadOptions& options, Trigger trigger)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> TakeFile(CheckpointState& state, const OperatorFile& file, LoadOptions options, bool again)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Published> Publish(const Upload& upload) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Published> PublishLocked(const Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<absl::Status> Resume(const std::string& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ForgetFile(const std::string& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Published> CommitAndDescribe(CheckpointState state, bool unchanged) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  FoundFile FindFile(const CheckpointState& state) const;

  // repository_versions.cc
  std::vector<absl::Status> Restore(CheckpointState& state, const FoundFile& file) const;
  struct NewVersion {
    ManifestVersion entry;
    const ByteSource& bytes;
    const ParsedCheckpoint* parsed = nullptr;  // nullptr: not parsed yet
    bool replace = false;                      // see LoadOptions
  };
  absl::Status AddVersion(CheckpointState& state, NewVersion added) const;
  absl::Status LoadVersion(CheckpointState& state, int64_t number, const ByteSource& bytes,
                           const ParsedCheckpoint* parsed = nullptr) const;
  absl::Status LoadFromFile(CheckpointState& state, int64_t number, const OperatorFile& file) const;
  absl::Status LoadFromBlob(CheckpointState& state, int64_t number) const;

  // repository_edits.cc: changes that load nothing.
  absl::StatusOr<int64_t> UnloadLocked(const std::string& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Deleted> DeleteLocked(const std::string& checkpoint, int64_t version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<int64_t> SetAliasLocked(const std::string& checkpoint, const AliasChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status DeleteAll(CheckpointState& state) const;
  absl::Status DeleteVersion(CheckpointState& state, int64_t version) const;
  absl::Status RemoveDeletedFiles(const std::string& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CopyFileToBlob(CheckpointState& state, int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const RepositoryOptions options_;
  Registry* const registry_;
  const Loader loader_;

  // Changed under mu_; uploads use what Store documents as thread-safe without it.
  Store store_;

  absl::Mutex mu_;  // held for a whole change
  std::map<std::string, LoadedVersions, std::less<>> loaded_ ABSL_GUARDED_BY(mu_);
  FolderWatch watch_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> skipped_ ABSL_GUARDED_BY(mu_);  // as FolderContent, so that each is logged once
  bool folder_readable_ ABSL_GUARDED_BY(mu_) = true;                 // so that an unreadable folder is logged once
};

}  // namespace attention::server
