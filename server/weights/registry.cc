#include "server/weights/registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/weights/formats/echo.h"

namespace attention::server {
namespace {

absl::Status NotServed(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("weight set \"", Echo(name), "\" is not loaded"));
}

}  // namespace

absl::StatusOr<std::vector<WeightSetPtr>> Registry::Publish(const std::string& checkpoint,
                                                            std::vector<WeightSet> weight_sets) {
  std::map<std::string, std::shared_ptr<WeightSet>> fresh;
  for (WeightSet& weight_set : weight_sets) {
    auto shared = std::make_shared<WeightSet>(std::move(weight_set));
    shared->checkpoint = checkpoint;
    if (!fresh.emplace(shared->name, shared).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint ", Echo(checkpoint), ": duplicate weight set ", Echo(shared->name)));
    }
  }
  // Declared before the lock, so that what it takes over is destroyed after it: freeing weights may take long.
  std::vector<WeightSetPtr> dropped;
  absl::MutexLock lock(&mu_);
  for (const auto& [name, weight_set] : fresh) {
    const auto served = served_.find(name);
    if (served == served_.end() || served->second->checkpoint == checkpoint) continue;
    return absl::AlreadyExistsError(absl::StrCat("checkpoint ", Echo(checkpoint), ": weight set ", Echo(name),
                                                 " is served from checkpoint ", Echo(served->second->checkpoint)));
  }
  for (auto it = served_.begin(); it != served_.end();) {
    const bool replaced = it->second->checkpoint == checkpoint;
    if (replaced) dropped.push_back(std::move(it->second));
    it = replaced ? served_.erase(it) : std::next(it);
  }
  std::vector<WeightSetPtr> published;
  for (const auto& [name, weight_set] : fresh) {
    weight_set->version = ++last_versions_[name];
    published.push_back(weight_set);
    served_.emplace(name, weight_set);
  }
  return published;
}

absl::StatusOr<WeightSetPtr> Registry::Find(absl::string_view name, int64_t version) const {
  WeightSetPtr found;
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto it = served_.find(name);
    if (it != served_.end()) found = it->second;
  }
  if (found == nullptr) return NotServed(name);
  if (version == 0 || version == found->version) return found;
  return absl::NotFoundError(
      absl::StrCat("version: wanted ", version, ", but weight set \"", Echo(name), "\" serves ", found->version));
}

std::vector<WeightSetPtr> Registry::List() const {
  std::vector<WeightSetPtr> list;
  absl::ReaderMutexLock lock(&mu_);
  for (const auto& [name, weight_set] : served_) list.push_back(weight_set);
  return list;
}

absl::StatusOr<int64_t> Registry::Unload(absl::string_view name) {
  WeightSetPtr dropped;
  {
    absl::MutexLock lock(&mu_);
    const auto it = served_.find(name);
    if (it != served_.end()) {
      dropped = std::move(it->second);
      served_.erase(it);
    }
  }
  if (dropped == nullptr) return NotServed(name);
  return dropped->version;
}

}  // namespace attention::server
