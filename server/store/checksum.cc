#include "server/store/checksum.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "server/store/little_endian.h"

namespace nearfield::store {
namespace {

// OpenSSL's hash functions fail only if memory runs out. A digest computed after that would be
// wrong, and the catalog would store it.
void ThrowUnless(bool done) {
  if (!done) throw std::bad_alloc();
}

}  // namespace

uint32_t Crc32c(absl::Span<const uint8_t> bytes, uint32_t previous) {
  constexpr size_t kStep = size_t{1} << 30;  // the library takes the size as int
  uint32_t state = ~previous;
  while (!bytes.empty()) {
    const absl::Span<const uint8_t> step = bytes.subspan(0, std::min(kStep, bytes.size()));
    // The library takes a pointer to mutable bytes but only reads them.
    state = crc32_iscsi(const_cast<uint8_t*>(step.data()), static_cast<int>(step.size()), state);
    bytes.remove_prefix(step.size());
  }
  return ~state;
}

std::string DigestBytes(const Digest& digest) { return std::string(digest.begin(), digest.end()); }

std::string DigestHex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  ThrowUnless(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256& Sha256::Add(absl::Span<const uint8_t> bytes) {
  ThrowUnless(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Add(std::string_view bytes) {
  ThrowUnless(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::AddNumber(int64_t value) {
  std::array<uint8_t, 8> bytes = {};
  PutUint64(static_cast<uint64_t>(value), bytes.data());
  return Add(absl::MakeConstSpan(bytes));
}

Digest Sha256::Value() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  Digest digest = {};
  unsigned int size = 0;
  ThrowUnless(copy != nullptr && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 &&
              EVP_DigestFinal_ex(copy.get(), digest.data(), &size) == 1);
  return digest;
}

}  // namespace nearfield::store
