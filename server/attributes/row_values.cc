#include "server/attributes/row_values.h"

#include <cstddef>

namespace nearfield::server {

RowValues::RowValues(bool is_list, const RowCodes& rows)
    : is_list_(is_list), codes_(rows.codes), list_sizes_(rows.list_sizes) {
  begins_.reserve((rows.list_sizes.size() + kRowsPerBegin - 1) / kRowsPerBegin);
  uint32_t begin = 0;
  for (size_t row = 0; row < rows.list_sizes.size(); ++row) {
    if (row % kRowsPerBegin == 0) begins_.push_back(begin);
    begin += rows.list_sizes[row];
  }
}

CodePlaces RowValues::PlacesOf(int64_t row) const {
  if (!is_list_) return {.begin = row, .end = row + 1};
  int64_t begin = begins_[static_cast<size_t>(row / kRowsPerBegin)];
  for (int64_t before = row / kRowsPerBegin * kRowsPerBegin; before < row; ++before) {
    begin += list_sizes_.at(before);
  }
  return {.begin = begin, .end = begin + list_sizes_.at(row)};
}

void RowValues::AppendTo(int64_t first, int64_t count, absl::Span<const uint32_t> new_codes,
                         RowCodes* to) const {
  if (count == 0) return;
  CodePlaces places = {.begin = PlacesOf(first).begin, .end = first + count};
  if (is_list_) places.end = places.begin;
  for (int64_t row = first; is_list_ && row < first + count; ++row) {
    to->list_sizes.push_back(list_sizes_.at(row));
    places.end += to->list_sizes.back();
  }
  for (int64_t place = places.begin; place < places.end; ++place) {
    to->codes.push_back(new_codes[codes_.at(place)]);
  }
}

int64_t RowValues::BytesMax(bool is_list, int64_t values_count, int64_t rows_count) {
  // The largest code is the number of distinct values.
  const int64_t codes = PackedInts::BytesMax(values_count, values_count);
  if (!is_list) return codes;
  return codes + PackedInts::BytesMax(rows_count, values_count) +
         (rows_count / kRowsPerBegin + 1) * static_cast<int64_t>(sizeof(uint32_t));
}

int64_t RowValues::bytes() const {
  return codes_.bytes() + list_sizes_.bytes() +
         static_cast<int64_t>(begins_.capacity() * sizeof(uint32_t));
}

}  // namespace nearfield::server
