// RowFilter: a set of rows of a collection, by ordinal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield {

// Rows get ordinals as they are uploaded: an upload takes the lowest free range that is long enough
// (see Upload::TakeOrdinals and PendingChange::first_ordinal). The rows of one state have different
// ordinals. Ordinals of dead rows are reused after their release (Collection::ReleaseOrdinals). So
// a filter is valid for states that have been held since it was made. Code that knows the rows'
// attributes chooses rows by ordinal. Immutable once it is passed to a search.
struct RowFilter {
  // Bit (ordinal % 64) of word ordinal / 64. Rows beyond the last word are not chosen.
  std::vector<uint64_t> chosen;

  bool Chooses(uint32_t ordinal) const {
    const size_t word = ordinal / 64;
    return word < chosen.size() && (chosen[word] >> (ordinal % 64) & 1u) != 0;
  }
};

}  // namespace nearfield
