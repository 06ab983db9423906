// IdFilter: a Bloom filter that rejects most ids that a generation does not hold, at the cost of
// one memory access. Most new ids are in no generation, and an exact look-up in each of sixteen
// generations would cost more than the upload itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

// Returns the hash of the id at `index`. Equal ids of all columns in this process have equal
// hashes.
uint64_t IdHash(const IdColumn& ids, int64_t index);

// A blocked Bloom filter: the four bits of an id are in one 64-bit word. It has 16 bits for each
// row. About one absent id in 150 passes; every id that is present passes.
class IdFilter {
 public:
  IdFilter() = default;
  explicit IdFilter(const IdColumn& ids);

  // Returns the bytes of a filter for `rows_count` rows.
  static int64_t BytesFor(int64_t rows_count);
  int64_t bytes() const { return static_cast<int64_t>(words_.capacity() * sizeof(uint64_t)); }

  bool MayHold(uint64_t hash) const {
    const uint64_t bits = Bits(hash);
    return (words_[Word(hash)] & bits) == bits;
  }

 private:
  // The upper half of the hash selects the word, the lower half the bits.
  size_t Word(uint64_t hash) const {
    return static_cast<size_t>((hash >> 32) * static_cast<uint64_t>(words_.size()) >> 32);
  }
  static uint64_t Bits(uint64_t hash) {
    return uint64_t{1} << (hash & 63) | uint64_t{1} << (hash >> 6 & 63) |
           uint64_t{1} << (hash >> 12 & 63) | uint64_t{1} << (hash >> 18 & 63);
  }

  std::vector<uint64_t> words_;  // fewer than 2^32, as the rows are
};

}  // namespace nearfield::corpus
