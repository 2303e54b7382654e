#include "server/checkpoint/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <new>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace attention {
namespace {

constexpr size_t kHexDigits = 64;

bool IsLowerHexDigit(char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); }

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// OpenSSL fails here only without memory.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::Span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

void Sha256::Update(absl::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Of(absl::Span<const std::byte> bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.Finish();
}

bool IsSha256(absl::string_view text) {
  return text.size() == kHexDigits && std::all_of(text.begin(), text.end(), IsLowerHexDigit);
}

}  // namespace attention
