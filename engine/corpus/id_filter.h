// A filter that says "not here" of most ids that a generation does not hold, at the cost of one
// memory access: most new ids are in no generation, and an exact look into each of sixteen would
// cost more than the upload itself.
#ifndef NEARFIELD_ENGINE_CORPUS_ID_FILTER_H_
#define NEARFIELD_ENGINE_CORPUS_ID_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

// Of the id at `index`; the same for the same id in any column of this process.
uint64_t IdHash(const IdColumn& ids, int64_t index);

// A Bloom filter whose bits for one id lie in one 64-bit word: 16 bits a row, four of them set.
// About one id in 150 that is not there passes; none that is there fails.
class IdFilter {
 public:
  IdFilter() = default;
  explicit IdFilter(const IdColumn& ids);

  // Of a filter for this many rows.
  static int64_t BytesFor(int64_t rows_count);
  int64_t bytes() const { return static_cast<int64_t>(words_.capacity() * sizeof(uint64_t)); }

  bool MayHold(uint64_t hash) const {
    const uint64_t bits = Bits(hash);
    return (words_[Word(hash)] & bits) == bits;
  }

 private:
  // The upper half of the hash chooses the word, the lower half the bits.
  size_t Word(uint64_t hash) const {
    return static_cast<size_t>((hash >> 32) * static_cast<uint64_t>(words_.size()) >> 32);
  }
  static uint64_t Bits(uint64_t hash) {
    return uint64_t{1} << (hash & 63) | uint64_t{1} << (hash >> 6 & 63) |
           uint64_t{1} << (hash >> 12 & 63) | uint64_t{1} << (hash >> 18 & 63);
  }

  std::vector<uint64_t> words_;  // fewer than 2^32: rows are
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_ID_FILTER_H_
