#include "server/checkpoint/names.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"

namespace attention::server {
namespace {

constexpr size_t kMaxLength = 128;
constexpr size_t kMaxAliasLength = 64;

bool IsLowerOrDigit(unsigned char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }

bool IsNameCharacter(unsigned char c) { return IsLowerOrDigit(c) || c == '.' || c == '_' || c == '/' || c == '-'; }

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxLength && IsLowerOrDigit(name[0]) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter) && !absl::StrContains(name, "..") &&
         !absl::StrContains(name, "//") && !absl::EndsWith(name, "/");
}

bool IsAlias(absl::string_view alias) {
  return !alias.empty() && alias.size() <= kMaxAliasLength && IsLowerOrDigit(alias[0]) &&
         std::all_of(alias.begin(), alias.end(), IsNameCharacter) && !absl::StrContains(alias, "/");
}

bool AreDigits(absl::string_view text) { return absl::c_all_of(text, absl::ascii_isdigit); }

}  // namespace

absl::Status CheckNotShard(absl::string_view name) {
  constexpr size_t kDigits = 5;
  constexpr absl::string_view kOf = "-of-";
  if (name.size() < 2 * kDigits + kOf.size() + 1) return absl::OkStatus();
  const absl::string_view end = name.substr(name.size() - 2 * kDigits - kOf.size() - 1);
  const absl::string_view number = end.substr(1, kDigits), count = end.substr(1 + kDigits + kOf.size());
  const bool is_shard = end[0] == '-' && end.substr(1 + kDigits, kOf.size()) == kOf && AreDigits(number) &&
                        AreDigits(count) && count != "00001";
  if (!is_shard) return absl::OkStatus();
  return FieldError("file", "a whole checkpoint in one file",
                    absl::StrCat("file ", number, " of ", count,
                                 "; save the attention layers, or all tensors, in one file with "
                                 "safetensors.torch.save_file"));
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return FieldError(field, "a name [a-z0-9][a-z0-9._/-]{0,127} without \"..\", \"//\" and a final \"/\"",
                    absl::StrCat("\"", EscapeForMessage(name), "\""));
}

absl::Status CheckAlias(absl::string_view field, absl::string_view alias) {
  if (IsAlias(alias)) return absl::OkStatus();
  return FieldError(field, "an alias [a-z0-9][a-z0-9._-]{0,63}", absl::StrCat("\"", EscapeForMessage(alias), "\""));
}

}  // namespace attention::server
