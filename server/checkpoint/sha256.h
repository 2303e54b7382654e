#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct evp_md_ctx_st;

namespace attention::server {

// The SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(absl::Span<const std::byte> bytes);

  // 64 lower case hexadecimal digits. To be called once, last.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Of bytes that are there.
std::string Sha256Of(absl::Span<const std::byte> bytes);

// True for what Finish can return.
bool IsSha256(absl::string_view text);

}  // namespace attention::server
