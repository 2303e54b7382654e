#include "server/weights/store/blob_prefetch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/runtime/catch_exceptions.h"

namespace attention::server {
namespace {

std::string KeyOf(const ManifestVersion& version) { return absl::StrCat(version.sha256, ".", version.format); }

}  // namespace

BlobPrefetch::BlobPrefetch(const std::vector<ManifestVersion>& versions, int num_threads, Open open)
    : open_(std::move(open)) {
  for (const ManifestVersion& version : versions) {
    if (positions_.emplace(KeyOf(version), versions_.size()).second) versions_.push_back(version);
  }
  {
    absl::MutexLock lock(&mu_);
    results_.resize(versions_.size());
    is_taken_.resize(versions_.size());
  }
  // If the system has no more threads, those that there are do the work, or Take does.
  const absl::Status status = CatchExceptions("starting threads that read stored checkpoints", [&] {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Loop(); });
    return absl::OkStatus();
  });
}

BlobPrefetch::~BlobPrefetch() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<OpenedFile> BlobPrefetch::Take(const ManifestVersion& version) {
  const auto found = positions_.find(KeyOf(version));
  if (found == positions_.end() || threads_.empty()) return OpenNow(version);
  {
    absl::MutexLock lock(&mu_);
    const size_t position = found->second;
    if (!is_taken_[position]) {
      is_taken_[position] = true;
      taken_end_ = std::max(taken_end_, position + 1);
      mu_.Await(absl::Condition(
          +[](Result* result) { return result->has_value(); }, &results_[position]));
      return *std::exchange(results_[position], std::nullopt);
    }
  }
  return OpenNow(version);
}

void BlobPrefetch::Loop() {
  while (true) {
    size_t position = 0;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &BlobPrefetch::CanContinue));
      if (stopping_ || next_ == versions_.size()) return;
      position = next_++;
    }
    absl::StatusOr<OpenedFile> opened = OpenNow(versions_[position]);
    absl::MutexLock lock(&mu_);
    results_[position].emplace(std::move(opened));
  }
}

absl::StatusOr<OpenedFile> BlobPrefetch::OpenNow(const ManifestVersion& version) const {
  absl::StatusOr<OpenedFile> opened;
  const absl::Status status = CatchExceptions("opening a stored checkpoint", [&] {
    opened = open_(version);
    return opened.status();
  });
  if (!status.ok()) return status;
  return opened;
}

bool BlobPrefetch::CanContinue() const { return stopping_ || next_ == versions_.size() || next_ < taken_end_ + kAhead; }

}  // namespace attention::server
