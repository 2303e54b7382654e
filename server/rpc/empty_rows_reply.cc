#include "server/rpc/empty_rows_reply.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention::server {
namespace {

std::string Text(const EmptyRows& rows) {
  return absl::StrJoin(rows.first(), ", ", [](std::string* out, const EmptyRows::Index& row) {
    absl::StrAppend(out, "[sequence ", row[0], ", head ", row[1], ", query ", row[2], "]");
  });
}

}  // namespace

absl::Status ReportEmptyRows(const EmptyRows& rows, EmptyRowRule rule, v1::AttendResponse* response) {
  const int64_t count = rows.count();
  if (count == 0 || rule != EmptyRowRule::kError) {
    response->set_empty_rows(count);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "mask: ", count, count == 1 ? " query row sees no key, at " : " query rows see no key, the first at ", Text(rows),
      "; wanted a key for each, since options.empty_rows is ERROR"));
}

}  // namespace attention::server
