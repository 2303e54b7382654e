#include "server/weights/registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/field_error.h"
#include "server/weights/weight_sum.h"

namespace attention::server {
namespace {

absl::Status NotServed(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("weight_set: no weight set named \"", EscapeForMessage(name), "\" is loaded"));
}

}  // namespace

absl::Status Registry::CheckNames(absl::string_view checkpoint, absl::Span<const std::string> names) const {
  absl::ReaderMutexLock lock(&mu_);
  return CheckOwners(checkpoint, names);
}

absl::Status Registry::Serve(const std::string& checkpoint, ServedCheckpoint served) {
  Checkpoint fresh;
  WeightSum sum;
  Names names;
  for (const auto& [version, weight_sets] : served.versions) {
    for (const WeightSetPtr& weight_set : weight_sets) {
      sum.Add(*weight_set);
      Name& name = names[weight_set->name];
      name.checkpoint = checkpoint;
      if (name.versions.emplace(version, weight_set).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint),
                                                     ": duplicate weight set ", EscapeForMessage(weight_set->name)));
    }
    fresh.highest = version;
  }
  for (const auto& [name, versions] : names) fresh.names.push_back(name);
  fresh.aliases = std::move(served.aliases);
  fresh.bytes = sum.bytes();

  // Declared before the lock, so that the removed weights are freed after it is released.
  Names dropped;
  absl::MutexLock lock(&mu_);
  if (auto status = CheckOwners(checkpoint, fresh.names); !status.ok()) return status;
  dropped = Remove(checkpoint);
  if (names.empty()) return absl::OkStatus();
  names_.merge(names);
  bytes_ += fresh.bytes;
  checkpoints_.emplace(checkpoint, std::move(fresh));
  return absl::OkStatus();
}

void Registry::Drop(absl::string_view checkpoint) {
  Names dropped;  // before the lock, as in Serve
  absl::MutexLock lock(&mu_);
  dropped = Remove(checkpoint);
}

int64_t Registry::BytesOfOthers(absl::string_view checkpoint) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto served = checkpoints_.find(checkpoint);
  return bytes_ - (served == checkpoints_.end() ? 0 : served->second.bytes);
}

absl::StatusOr<WeightSetPtr> Registry::Find(absl::string_view name, int64_t version, absl::string_view alias) const {
  absl::ReaderMutexLock lock(&mu_);
  return FindLocked(name, version, alias);
}

absl::StatusOr<ServedWeightSet> Registry::Describe(absl::string_view name, int64_t version,
                                                   absl::string_view alias) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto found = FindLocked(name, version, alias);
  if (!found.ok()) return found.status();
  return WithAliases(*found);
}

std::vector<ServedWeightSet> Registry::List(absl::string_view prefix) const {
  std::vector<ServedWeightSet> list;
  absl::ReaderMutexLock lock(&mu_);
  for (auto it = names_.lower_bound(prefix); it != names_.end() && absl::StartsWith(it->first, prefix); ++it) {
    for (const auto& [version, weight_set] : it->second.versions) list.push_back(WithAliases(weight_set));
  }
  return list;
}

absl::Status Registry::CheckOwners(absl::string_view checkpoint, absl::Span<const std::string> names) const {
  for (const std::string& name : names) {
    const auto served = names_.find(name);
    if (served == names_.end() || served->second.checkpoint == checkpoint) continue;
    return absl::AlreadyExistsError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint), ": weight set ",
                                                 EscapeForMessage(name), " is already served from checkpoint ",
                                                 EscapeForMessage(served->second.checkpoint)));
  }
  return absl::OkStatus();
}

Registry::Names Registry::Remove(absl::string_view checkpoint) {
  Names removed;
  const auto served = checkpoints_.find(checkpoint);
  if (served == checkpoints_.end()) return removed;
  for (const std::string& name : served->second.names) removed.insert(names_.extract(name));
  bytes_ -= served->second.bytes;
  checkpoints_.erase(served);
  return removed;
}

absl::StatusOr<WeightSetPtr> Registry::FindLocked(absl::string_view name, int64_t version,
                                                  absl::string_view alias) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return NotServed(name);
  const auto& [checkpoint_name, versions] = found->second;
  const Checkpoint& checkpoint = checkpoints_.find(checkpoint_name)->second;
  absl::string_view field = "version";
  std::string reason;  // why this version was looked up
  if (!alias.empty()) {
    const auto named = checkpoint.aliases.find(alias);
    if (named == checkpoint.aliases.end()) {
      return absl::NotFoundError(absl::StrCat("alias: checkpoint \"", EscapeForMessage(checkpoint_name),
                                              "\" has no alias \"", EscapeForMessage(alias), "\""));
    }
    version = named->second;
    field = "alias";
    reason = absl::StrCat(", which the alias \"", EscapeForMessage(alias), "\" names");
  } else if (version == 0) {
    version = checkpoint.highest;
    reason = ", the highest of its checkpoint";
  }
  const auto weight_set = versions.find(version);
  if (weight_set != versions.end()) return weight_set->second;
  const auto version_of = [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); };
  return absl::NotFoundError(absl::StrCat(field, ": weight set \"", EscapeForMessage(name), "\" has no version ",
                                          version, reason, ", only ", absl::StrJoin(versions, ", ", version_of)));
}

ServedWeightSet Registry::WithAliases(const WeightSetPtr& weight_set) const {
  ServedWeightSet served{weight_set, {}};
  const auto checkpoint = checkpoints_.find(weight_set->checkpoint);
  if (checkpoint == checkpoints_.end()) return served;
  for (const auto& [alias, version] : checkpoint->second.aliases) {
    if (version == weight_set->version) served.aliases.push_back(alias);
  }
  return served;
}

}  // namespace attention::server
