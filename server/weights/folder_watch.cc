#include "server/weights/folder_watch.h"

#include <algorithm>
#include <set>
#include <utility>

namespace attention::server {
namespace {

const OperatorFiles& FilesOf(const FolderWatch::Files& files, const std::string& checkpoint) {
  static const OperatorFiles* const none = new OperatorFiles;
  const auto found = files.find(checkpoint);
  return found == files.end() ? *none : found->second;
}

bool AreSettled(const OperatorFiles& files, absl::Time now) {
  return std::all_of(files.begin(), files.end(), [&](const auto& file) { return IsSettled(file.second, now); });
}

}  // namespace

void FolderWatch::Begin(Files files, absl::Time now) {
  for (const auto& [checkpoint, state] : files) {
    if (AreSettled(state, now)) taken_[checkpoint] = state;
  }
  seen_ = std::move(files);
}

std::vector<std::string> FolderWatch::Update(Files files, absl::Time now) {
  std::set<std::string> known;
  for (const Files* states : {&files, &seen_, &taken_}) {
    for (const auto& [checkpoint, state] : *states) known.insert(checkpoint);
  }
  std::vector<std::string> changed;
  for (const std::string& checkpoint : known) {
    const OperatorFiles& state = FilesOf(files, checkpoint);
    if (state == FilesOf(taken_, checkpoint) || state != FilesOf(seen_, checkpoint) || !AreSettled(state, now))
      continue;
    changed.push_back(checkpoint);
    if (state.empty()) {
      taken_.erase(checkpoint);
    } else {
      taken_[checkpoint] = state;
    }
  }
  seen_ = std::move(files);
  return changed;
}

}  // namespace attention::server
