#include "server/checkpoint/escape.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace attention::server {
namespace {

constexpr size_t kMaxLength = 100;

}  // namespace

std::string Echo(absl::string_view text) {
  // One character more than may be shown, so that a longer text never looks whole; and never all of a very long one.
  std::string escaped = absl::CEscape(text.substr(0, kMaxLength + 1));
  if (escaped.size() <= kMaxLength) return escaped;
  return absl::StrCat(absl::string_view(escaped).substr(0, kMaxLength - 3), "...");
}

}  // namespace attention::server
