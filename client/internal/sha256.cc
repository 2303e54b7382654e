#include "client/internal/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace attention {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

}  // namespace attention
