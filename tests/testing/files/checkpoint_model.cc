#include "tests/testing/files/checkpoint_model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention::test {
namespace {

std::string Line(int64_t version, const std::vector<std::string>& aliases) {
  return absl::StrCat(version, aliases.empty() ? "" : " ", absl::StrJoin(aliases, " "));
}

}  // namespace

void CheckpointModel::Add(int64_t content) {
  contents[++last_version] = content;
  DropVersions();
}

void CheckpointModel::SetAlias(const std::string& alias, int64_t version) {
  aliases.erase(alias);
  if (version != 0) aliases[alias] = version;
  DropVersions();
}

void CheckpointModel::Delete(int64_t version) {
  if (version == 0) aliases.clear();
  version == 0 ? contents.clear() : static_cast<void>(contents.erase(version));
}

void CheckpointModel::DropVersions() {
  std::map<int64_t, int64_t> kept;
  if (!contents.empty()) kept.insert(*contents.rbegin());
  for (const auto& [alias, version] : aliases) kept[version] = contents.at(version);
  contents = std::move(kept);
}

std::string Describe(const CheckpointModel& model) {
  std::vector<std::string> lines;
  for (auto it = model.contents.rbegin(); it != model.contents.rend(); ++it) {
    std::vector<std::string> aliases;
    for (const auto& [alias, version] : model.aliases) {
      if (version == it->first) aliases.push_back(alias);
    }
    lines.push_back(Line(it->first, aliases));
  }
  return absl::StrJoin(lines, ", ");
}

std::string Describe(const std::string& name, const std::vector<WeightSetInfo>& list) {
  std::vector<std::string> lines;
  for (const WeightSetInfo& info : list) {
    if (info.name == name) lines.push_back(Line(info.version, info.aliases));
  }
  return absl::StrJoin(lines, ", ");
}

}  // namespace attention::test
