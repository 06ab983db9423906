// Tests that the checksums have their standard values.
#include "server/store/checksum.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <cstdlib>
#include <new>
#include <string>

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Allocations of OpenSSL until the one that fails; 0 or less: none fails.
int64_t openssl_left = 0;

bool OpenSslFails() { return openssl_left > 0 && --openssl_left == 0; }

// OpenSSL accepts these only before its first allocation, so they are set before main.
const int openssl_uses_these = CRYPTO_set_mem_functions(
    [](size_t bytes, const char* /*file*/, int /*line*/) {
      return OpenSslFails() ? nullptr : std::malloc(bytes);
    },
    [](void* memory, size_t bytes, const char* /*file*/, int /*line*/) {
      return OpenSslFails() ? nullptr : std::realloc(memory, bytes);
    },
    [](void* memory, const char* /*file*/, int /*line*/) { std::free(memory); });

// OpenSSL had no memory for a digest, and the catalog stored a wrong one and never opened again.
TEST(ChecksumTest, ADigestWithoutMemoryIsBadAllocAndNeverAWrongDigest) {
  ASSERT_EQ(openssl_uses_these, 1);
  const Digest right = Sha256().Add(std::string_view("abc")).Value();
  int64_t failures = 0;
  for (int64_t n = 1; n < 1000; ++n) {
    openssl_left = n;
    try {
      EXPECT_EQ(Sha256().Add(std::string_view("abc")).Value(), right) << "allocation " << n;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    const bool failed = openssl_left == 0;
    openssl_left = 0;
    if (!failed) break;
  }
  EXPECT_GT(failures, 0);
}

TEST(ChecksumTest, Crc32cHasItsPublishedValues) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8a9136aau);    // RFC 3720, B.4
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xff'))), 0x62a8ab43u);  // RFC 3720, B.4
}

TEST(ChecksumTest, Crc32cGoesOnWhereItWas) {
  testing::Random random(testing::TestSeed());
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(random.Bits()));
  for (int i = 0; i < 100; ++i) {
    const auto cut = static_cast<size_t>(random.Between(0, 1001));
    EXPECT_EQ(Crc32c(Bytes(text.substr(cut)), Crc32c(Bytes(text.substr(0, cut)))),
              Crc32c(Bytes(text)));
  }
}

TEST(ChecksumTest, Sha256HasItsPublishedValues) {  // FIPS 180-2, B.1
  EXPECT_EQ(DigestHex(Sha256().Add(std::string_view("abc")).Value()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(DigestHex(Sha256().Value()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace nearfield::store
