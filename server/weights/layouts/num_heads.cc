#include "server/weights/layouts/num_heads.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/weights/formats/echo.h"
#include "server/weights/layouts/layer_parts.h"

namespace attention::server {
namespace {

constexpr absl::string_view kKey = "num_heads";

}  // namespace

HeadCounts::HeadCounts(const std::map<std::string, std::string>& metadata, int64_t asked) : asked_(asked) {
  for (const auto& [key, value] : metadata) {
    if (absl::EndsWith(key, kKey)) counts_.emplace(WithSlashes(key), value);
  }
}

absl::StatusOr<int64_t> HeadCounts::Of(absl::string_view path) const {
  if (asked_ > 0) return asked_;
  const absl::string_view without_params = absl::StripPrefix(path, "params/");
  for (const std::string& key : {absl::StrCat(path, kKey), absl::StrCat(without_params, kKey), std::string(kKey)}) {
    const auto found = counts_.find(key);
    if (found == counts_.end()) continue;
    int64_t count = 0;
    if (absl::SimpleAtoi(found->second, &count) && count > 0) return count;
    return absl::InvalidArgumentError(
        absl::StrCat("metadata ", Echo(key), ": wanted a number of at least 1, found \"", Echo(found->second), "\""));
  }
  const std::string own = without_params.empty() ? "" : absl::StrCat(" or ", Echo(absl::StrCat(without_params, kKey)));
  return absl::InvalidArgumentError(absl::StrCat("num_heads: wanted, because the shapes do not show the heads of ",
                                                 path.empty() ? "the layer" : Echo(absl::StripSuffix(path, "/")),
                                                 "; give it with the call, or as ", kKey, own,
                                                 " in the metadata of the file"));
}

}  // namespace attention::server
