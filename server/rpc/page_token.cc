#include "server/rpc/page_token.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/weights/formats/echo.h"
#include "server/weights/names.h"

namespace attention::server {

std::string MakePageToken(const PageEnd& end) {
  return absl::WebSafeBase64Escape(absl::StrCat(end.version, " ", end.name));
}

absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token) {
  std::string text;
  PageEnd end;
  bool good = absl::WebSafeBase64Unescape(token, &text);
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  good = good && absl::SimpleAtoi(parts.first, &end.version) && CheckName("page_token", parts.second).ok();
  end.name = std::string(parts.second);
  // Whoever writes a token himself might spell it in another way.
  if (good && MakePageToken(end) == token) return end;
  return absl::InvalidArgumentError(
      absl::StrCat("page_token: ", Echo(token), " is none; wanted next_page_token of the page before"));
}

}  // namespace attention::server
