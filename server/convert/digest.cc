#include "server/convert/digest.h"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace nearfield::server {
namespace {

namespace pb = ::nearfield::v1;

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie");

constexpr char kTitle[] = "nearfield result digest 1";
constexpr char kGroupedTitle[] = "nearfield grouped digest 1";
constexpr uint64_t kNone = 0;
constexpr uint64_t kNumbers = 1;
constexpr uint64_t kTexts = 2;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Add(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }
  std::string Value() {
    std::string digest(32, '\0');
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  const std::unique_ptr<EVP_MD_CTX, Free> context_;
};

void AddText(const std::string& text, Sha256* sha) {
  const uint64_t length = text.size();
  sha->Add(&length, sizeof(length));
  sha->Add(text.data(), text.size());
}

// Only the member of the attribute's type has values.
void AddGroups(const pb::GroupColumn& groups, Sha256* sha) {
  const auto count = static_cast<uint64_t>(groups.rows_counts_size());
  sha->Add(&count, sizeof(count));
  for (const uint64_t rows : groups.rows_counts()) sha->Add(&rows, sizeof(rows));
  const pb::AttributeValues& values = groups.values();
  for (const int64_t value : values.int64_values()) sha->Add(&value, sizeof(value));
  for (const double value : values.double_values()) sha->Add(&value, sizeof(value));
  for (const uint64_t value : values.bool_values()) sha->Add(&value, sizeof(value));
  for (const std::string& value : values.keyword_values()) AddText(value, sha);
  for (const int64_t value : values.timestamp_us_values()) sha->Add(&value, sizeof(value));
}

void AddResult(const pb::QueryResult& result, Sha256* sha) {
  const pb::IdList& ids = result.ids();
  const auto count = static_cast<uint64_t>(result.scores_size());
  const uint64_t kind = count == 0 ? kNone : ids.texts_size() > 0 ? kTexts : kNumbers;
  const std::array<uint64_t, 2> head = {count, kind};
  sha->Add(head.data(), sizeof(head));
  sha->Add(ids.numbers().data(), sizeof(uint64_t) * static_cast<size_t>(ids.numbers_size()));
  for (const std::string& text : ids.texts()) AddText(text, sha);
  sha->Add(result.scores().data(), sizeof(float) * static_cast<size_t>(result.scores_size()));
  if (result.has_groups()) AddGroups(result.groups(), sha);
}

}  // namespace

std::string ResultDigest(const pb::SearchResponse& response) {
  Sha256 sha;
  if (response.results_size() > 0 && response.results(0).has_groups()) {
    sha.Add(kGroupedTitle, sizeof(kGroupedTitle) - 1);
  } else {
    sha.Add(kTitle, sizeof(kTitle) - 1);
  }
  for (const pb::QueryResult& result : response.results()) AddResult(result, &sha);
  return sha.Value();
}

}  // namespace nearfield::server
