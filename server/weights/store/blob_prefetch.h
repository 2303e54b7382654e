#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/checkpoint/file.h"
#include "server/weights/store/manifest.h"

namespace attention::server {

// Opens blobs on several threads before they are needed. Opening one hashes it, which takes longer than loading it.
// One thread at a time may take blobs.
class BlobPrefetch {
 public:
  using Open = std::function<absl::StatusOr<OpenedFile>(const ManifestVersion& version)>;

  // The number of blobs that are opened ahead of the last one that was taken, so that their bytes are still in the page
  // cache when they are loaded.
  static constexpr size_t kAhead = 8;

  // Calls `open` from `num_threads` threads for each of `versions`, in this order, and for equal blobs once.
  BlobPrefetch(const std::vector<ManifestVersion>& versions, int num_threads, Open open);

  // Waits for the calls that have begun.
  ~BlobPrefetch();

  BlobPrefetch(const BlobPrefetch&) = delete;
  BlobPrefetch& operator=(const BlobPrefetch&) = delete;

  // The result of `open` for the blob of `version`. Opens it now if it is not one of `versions` or was taken before.
  absl::StatusOr<OpenedFile> Take(const ManifestVersion& version) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Result = std::optional<absl::StatusOr<OpenedFile>>;

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<OpenedFile> OpenNow(const ManifestVersion& version) const;
  bool CanContinue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const Open open_;
  std::vector<ManifestVersion> versions_;    // without duplicates
  std::map<std::string, size_t> positions_;  // in versions_

  absl::Mutex mu_;
  std::vector<Result> results_ ABSL_GUARDED_BY(mu_);  // those that were opened and not taken
  std::vector<bool> is_taken_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;       // the first that no thread has begun to open
  size_t taken_end_ ABSL_GUARDED_BY(mu_) = 0;  // after the last one that was taken
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> threads_;  // declared last, because they start in the constructor
};

}  // namespace attention::server
