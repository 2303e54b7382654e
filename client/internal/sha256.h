#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace attention {

// The SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(absl::string_view bytes);

  // In lower case hexadecimal digits. To be called once, last.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace attention
