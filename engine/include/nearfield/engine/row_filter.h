// A choice among the rows of a collection, by ordinal.
#ifndef NEARFIELD_ENGINE_ROW_FILTER_H_
#define NEARFIELD_ENGINE_ROW_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield {

// Rows are numbered as they are uploaded: an upload gets the lowest free range of ordinals that is
// long enough (Upload::TakeOrdinals and PendingChange::first_ordinal tell which). The rows of one
// state have different ordinals. Ordinals of dead rows are given to later rows once they were
// released (Collection::ReleaseOrdinals), so a filter is good for states that were held since it
// was made. Whoever knows the rows' attributes chooses by ordinals. Immutable once a search has it.
struct RowFilter {
  // Bit (ordinal % 64) of word ordinal / 64. Rows beyond the last word are not chosen.
  std::vector<uint64_t> chosen;

  bool Chooses(uint32_t ordinal) const {
    const size_t word = ordinal / 64;
    return word < chosen.size() && (chosen[word] >> (ordinal % 64) & 1u) != 0;
  }
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_ROW_FILTER_H_
