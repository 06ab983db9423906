#include "nearfield/client/digest.h"

#include <openssl/evp.h>

#include <bit>
#include <memory>
#include <string_view>

namespace nearfield::client {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie");

constexpr std::string_view kTitle = "nearfield result digest 1";
constexpr std::string_view kGroupedTitle = "nearfield grouped digest 1";

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

void Add(EVP_MD_CTX* context, const void* bytes, size_t size) {
  EVP_DigestUpdate(context, bytes, size);
}

void AddNumber(EVP_MD_CTX* context, uint64_t number) { Add(context, &number, sizeof(number)); }

void AddText(EVP_MD_CTX* context, const std::string& text) {
  AddNumber(context, text.size());
  Add(context, text.data(), text.size());
}

void AddGroups(EVP_MD_CTX* context, const Groups& groups) {
  AddNumber(context, groups.rows_counts.size());
  for (const uint32_t rows : groups.rows_counts) AddNumber(context, rows);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&groups.values)) {
    for (const std::string& text : *texts) AddText(context, text);
  } else if (const auto* doubles = std::get_if<std::vector<double>>(&groups.values)) {
    for (const double value : *doubles) AddNumber(context, std::bit_cast<uint64_t>(value));
  } else if (const auto* bools = std::get_if<std::vector<bool>>(&groups.values)) {
    for (const bool value : *bools) AddNumber(context, value ? 1 : 0);
  } else if (const auto* times = std::get_if<std::vector<Timestamp>>(&groups.values)) {
    for (const Timestamp time : *times) {
      AddNumber(context, static_cast<uint64_t>(time.time_since_epoch().count()));
    }
  } else {
    for (const int64_t value : std::get<std::vector<int64_t>>(groups.values)) {
      AddNumber(context, static_cast<uint64_t>(value));
    }
  }
}

void AddResult(EVP_MD_CTX* context, const Neighbors& result) {
  const size_t count = Count(result.ids);
  const bool texts = TypeOf(result.ids) == IdType::kString;
  AddNumber(context, count);
  AddNumber(context, count == 0 ? 0 : texts ? 2 : 1);
  if (!texts) {
    const auto& numbers = std::get<std::vector<uint64_t>>(result.ids);
    Add(context, numbers.data(), numbers.size() * sizeof(uint64_t));
  } else {
    for (const std::string& text : std::get<std::vector<std::string>>(result.ids)) {
      AddNumber(context, text.size());
      Add(context, text.data(), text.size());
    }
  }
  Add(context, result.scores.data(), result.scores.size() * sizeof(float));
  if (result.groups) AddGroups(context, *result.groups);
}

}  // namespace

std::string ResultDigest(std::span<const Neighbors> results) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  const bool grouped = !results.empty() && results.front().groups.has_value();
  const std::string_view title = grouped ? kGroupedTitle : kTitle;
  Add(context.get(), title.data(), title.size());
  for (const Neighbors& result : results) AddResult(context.get(), result);
  std::string digest(32, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  return digest;
}

}  // namespace nearfield::client
