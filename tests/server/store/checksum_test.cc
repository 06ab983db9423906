// The checksums are the standard ones.
#include "server/store/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
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
