#include "engine/corpus/id_filter.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "engine/base/checked_math.h"
#include "engine/base/scramble.h"

namespace nearfield::corpus {
namespace {

constexpr int64_t kRowsPerWord = 4;

}  // namespace

uint64_t IdHash(const IdColumn& ids, int64_t index) {
  const uint64_t value = ids.type() == IdType::kUint64
                             ? ids.number(index)
                             : std::hash<std::string_view>()(ids.string(index));
  return Scramble(value);  // both halves of the hash are used
}

IdFilter::IdFilter(const IdColumn& ids)
    : words_(static_cast<size_t>(BytesFor(ids.size())) / sizeof(uint64_t)) {
  for (int64_t i = 0; i < ids.size(); ++i) {
    const uint64_t hash = IdHash(ids, i);
    words_[Word(hash)] |= Bits(hash);
  }
}

int64_t IdFilter::BytesFor(int64_t rows_count) {
  return std::max<int64_t>(1, CeilDiv(rows_count, kRowsPerWord)) *
         static_cast<int64_t>(sizeof(uint64_t));
}

}  // namespace nearfield::corpus
