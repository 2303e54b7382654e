#include "server/checkpoint/field_error.h"

#include "absl/strings/escaping.h"

namespace attention::server {
namespace {

constexpr size_t kMaxLength = 100;

}  // namespace

std::string EscapeForMessage(absl::string_view text) {
  // Escapes at most one character more than fits: enough to detect text that is too long, at a bounded cost.
  std::string escaped = absl::CEscape(text.substr(0, kMaxLength + 1));
  if (escaped.size() <= kMaxLength) return escaped;
  return absl::StrCat(absl::string_view(escaped).substr(0, kMaxLength - 3), "...");
}

}  // namespace attention::server
