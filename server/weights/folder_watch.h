#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/weights/operator_files.h"

namespace attention::server {

// Tells from one look at the folder to the next which checkpoints' files came, changed or went. A state counts once two
// looks have found it and it is settled (IsSettled), so that a file is not taken while it is being copied.
class FolderWatch {
 public:
  using Files = std::map<std::string, OperatorFiles>;  // by checkpoint

  // What was taken at the start.
  void Begin(Files files, absl::Time now);

  // The checkpoints whose files are in a state that was not returned before, sorted. None: they went.
  std::vector<std::string> Update(Files files, absl::Time now);

 private:
  Files seen_;   // by the last look
  Files taken_;  // as they were returned
};

}  // namespace attention::server
