#include "client/cpp/packed_results.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nearfield::client {
namespace {

static_assert(std::endian::native == std::endian::little, "packed numbers are copied as they lie");

absl::Status Malformed() { return absl::InternalError("malformed reply: packed results"); }

// Returns the numbers at `bytes`, which has at least `count`, and removes them.
template <typename T>
std::vector<T> TakeFirst(size_t count, std::string_view* bytes) {
  std::vector<T> numbers(count);
  bytes->copy(reinterpret_cast<char*>(numbers.data()), count * sizeof(T));
  bytes->remove_prefix(count * sizeof(T));
  return numbers;
}

}  // namespace

absl::StatusOr<std::vector<Neighbors>> Unpack(const v1::PackedResults& packed) {
  std::string_view ids = packed.ids();
  std::string_view scores = packed.scores();
  std::string_view counts = packed.counts();
  if (counts.size() % sizeof(uint32_t) != 0) return Malformed();
  std::vector<Neighbors> results;
  for (const uint32_t count : TakeFirst<uint32_t>(counts.size() / sizeof(uint32_t), &counts)) {
    if (count > ids.size() / sizeof(uint64_t) || count > scores.size() / sizeof(float)) {
      return Malformed();
    }
    results.push_back(
        {.ids = TakeFirst<uint64_t>(count, &ids), .scores = TakeFirst<float>(count, &scores)});
  }
  if (!ids.empty() || !scores.empty()) return Malformed();
  return results;
}

}  // namespace nearfield::client
