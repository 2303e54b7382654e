#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/weights.h"

namespace attention::test {

// A model of what attention.v1.WeightService guarantees for one checkpoint. Contents are represented by numbers.
struct CheckpointModel {
  int64_t last_version = 0;
  std::map<int64_t, int64_t> contents;     // by version
  std::map<std::string, int64_t> aliases;  // to versions

  bool operator==(const CheckpointModel&) const = default;

  int64_t highest() const { return contents.empty() ? 0 : contents.rbegin()->first; }

  // The changes. REQUIRES: the named version exists; Delete: it has no alias.
  void Add(int64_t content);
  void SetAlias(const std::string& alias, int64_t version);  // 0: removes it
  void Delete(int64_t version);                              // 0: all

 private:
  void DropVersions();
};

// Versions and aliases in one line: "3, 1 stable".
std::string Describe(const CheckpointModel& model);

// The same for the weight set `name` in a list.
std::string Describe(const std::string& name, const std::vector<WeightSetInfo>& list);

}  // namespace attention::test
