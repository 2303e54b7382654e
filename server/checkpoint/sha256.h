#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct evp_md_ctx_st;

// Shared by the server and the client library, which is installed without the server's libraries: only absl and
// OpenSSL.
namespace attention {

// Computes the SHA-256 of bytes that arrive in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(absl::Span<const std::byte> bytes);
  void Update(absl::string_view bytes);

  // 64 lower-case hexadecimal digits. May be called once, after the last Update.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// The SHA-256 of `bytes`, as Sha256::Finish returns it.
std::string Sha256Of(absl::Span<const std::byte> bytes);

// True for text in the form that Sha256::Finish returns.
bool IsSha256(absl::string_view text);

}  // namespace attention
