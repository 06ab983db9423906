#include "engine/corpus/id_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace nearfield::corpus {
namespace {

// Decides most comparisons without an access to the column.
struct SortKey {
  uint64_t key = 0;
  uint32_t index = 0;
};

// Returns the eight bytes at `begin` as a number whose unsigned order is the bytewise order.
uint64_t EightBytes(std::string_view text, size_t begin) {
  uint64_t bytes = 0;
  for (size_t i = begin; i < begin + sizeof(bytes); ++i) {
    bytes = bytes << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
  }
  return bytes;
}

// Returns the length of the prefix that all ids share, for example "user/". The bytes after it
// distinguish ids.
size_t CommonPrefix(const IdColumn& ids) {
  std::string_view common = ids.string(0);
  for (int64_t i = 1; i < ids.size() && !common.empty(); ++i) {
    const std::string_view id = ids.string(i);
    const auto [end, other] = std::mismatch(common.begin(), common.end(), id.begin(), id.end());
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
  }
  return common.size();
}

bool InOrder(const IdColumn& ids) {
  for (int64_t i = 1; i < ids.size(); ++i) {
    if (ids.Compare(i - 1, ids, i) > 0) return false;
  }
  return true;
}

}  // namespace

std::vector<uint32_t> OrderById(const IdColumn& ids) {
  std::vector<uint32_t> order(static_cast<size_t>(ids.size()));
  if (InOrder(ids)) {
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  const bool numbers = ids.type() == IdType::kUint64;
  const size_t common = numbers ? 0 : CommonPrefix(ids);
  std::vector<SortKey> keys(order.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    keys[i] = {.key = numbers ? ids.number(index) : EightBytes(ids.string(index), common),
               .index = static_cast<uint32_t>(i)};
  }
  std::sort(keys.begin(), keys.end(), [&ids, numbers](const SortKey& a, const SortKey& b) {
    if (a.key != b.key) return a.key < b.key;
    if (!numbers) {
      const int compared = ids.Compare(a.index, ids, b.index);
      if (compared != 0) return compared < 0;
    }
    return a.index < b.index;
  });
  for (size_t i = 0; i < keys.size(); ++i) order[i] = keys[i].index;
  return order;
}

std::vector<uint32_t> Inverse(absl::Span<const uint32_t> order) {
  std::vector<uint32_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<uint32_t>(i);
  return place;
}

std::optional<uint32_t> FindDouble(const IdColumn& ids, absl::Span<const uint32_t> order) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (ids.Compare(order[i - 1], ids, order[i]) == 0) return order[i];
  }
  return std::nullopt;
}

std::string IdText(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return absl::StrCat(*number);
  return absl::StrCat("\"", absl::CHexEscape(*std::get_if<std::string>(&id)), "\"");
}

absl::Status CheckIdType(const IdColumn& ids, IdType type) {
  if (ids.type() == type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      type == IdType::kUint64 ? "ids: string ids given; the ids of this collection are uint64"
                              : "ids: uint64 ids given; the ids of this collection are strings");
}

int64_t StringBytes(const IdColumn& ids) {
  int64_t bytes = 0;
  for (int64_t i = 0; ids.type() == IdType::kString && i < ids.size(); ++i) {
    bytes += static_cast<int64_t>(ids.string(i).size());
  }
  return bytes;
}

int64_t Gallop(const OrderedIds& a, int64_t begin, const OrderedIds& b, int64_t place) {
  int64_t low = begin;  // the ids at all places before it are less
  int64_t step = 1;
  int64_t high = begin;
  while (high < a.size() && a.Compare(high, b, place) < 0) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  high = std::min(high, a.size());
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a.Compare(middle, b, place) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace nearfield::corpus
