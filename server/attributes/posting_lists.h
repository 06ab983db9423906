// PostingLists: the rows of each distinct value of an attribute. A value is identified by its code,
// which is its position in value order (not an int8 code of a vector). This part of an index is the
// same for every type.
//
// A value with few rows stores them in a plain list, 4 bytes each. A value with at least kHeavyRows
// rows has its own bitmap. If each row has at most one value, there are also prefix bitmaps
// ("cuts"), about one every kCutRows rows: a cut holds all rows whose code is below its own. The
// rows of a range of codes are then the difference of two cuts, corrected by at most kCutRows rows
// at its two ends.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/row_filter.h"
#include "server/attributes/ordinal_set.h"

namespace nearfield::server {

// Codes [begin, end), in value order.
struct CodeRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool empty() const { return begin >= end; }
};

// One bit for each ordinal of a chunk. Evaluations reuse its memory.
class OrdinalBits {
 public:
  // Clears all bits and sets the range of ordinals, first .. last.
  void Reset(uint32_t first, uint32_t last);
  void Toggle(uint32_t ordinal) {
    const uint32_t bit = ordinal - base_;
    words_[bit / 64] ^= uint64_t{1} << (bit % 64);
  }
  void Set(uint32_t ordinal) {
    const uint32_t bit = ordinal - base_;
    words_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  OrdinalSet ToSet() const { return OrdinalSet::FromWords(base_, words_); }

 private:
  uint32_t base_ = 0;
  std::vector<uint64_t> words_;
};

// Immutable; built by PostingListsBuilder.
class PostingLists {
 public:
  static constexpr uint32_t kHeavyRows = 8192;
  static constexpr uint32_t kCutRows = 65536;
  // Ranges of up to this many rows are collected row by row, which is faster than two cuts and the
  // rows between them and the range's ends.
  static constexpr int64_t kCutRangeRows = 2 * int64_t{kCutRows};

  uint32_t codes_count() const { return codes_count_; }
  // Returns the number of rows in a range of codes. A row with several of these codes is counted
  // once for each.
  int64_t entries_count(CodeRange range) const {
    return EntriesBelow(range.end) - EntriesBelow(range.begin);
  }
  // Returns the bitmap of this code's rows; null if it has none.
  const OrdinalSet* Heavy(uint32_t code) const;
  // Returns the rows that have a code in `ranges`. Requires: the ranges ascend and do not overlap.
  // Cost: 1 to 2 ns for each row of plain lists (at most kCutRangeRows of them for one range with
  // cuts), and some microseconds for each heavy code.
  OrdinalSet Union(absl::Span<const CodeRange> ranges, OrdinalBits* scratch) const;
  // Returns the number of rows of a code that are in a set, which `bits` and `rows` both hold.
  int64_t CountIn(uint32_t code, const RowFilter& bits, const OrdinalSet& rows) const;
  // Appends the rows of a code, ascending.
  void AppendRows(uint32_t code, std::vector<uint32_t>* ordinals) const;
  // Returns an upper limit of bytes() for `entries` rows, each counted once for each of its values,
  // whose ordinals span at most `span`.
  static int64_t BytesMax(bool one_value_a_row, int64_t entries, int64_t span);
  int64_t bytes() const;

 private:
  friend class PostingListsBuilder;

  struct HeavyRows {
    uint32_t code = 0;
    int64_t entries_before = 0;  // rows of the heavy codes below this one
    OrdinalSet rows;
  };
  struct Cut {
    uint32_t code = 0;
    OrdinalSet rows_below;
  };
  // The lists and bitmaps that Union() combines.
  struct Parts {
    std::vector<absl::Span<const uint32_t>> light;
    std::vector<const OrdinalSet*> heavy;
    int64_t light_count = 0;
  };

  int64_t EntriesBelow(uint32_t code) const {
    return unique_ || code == 0 ? int64_t{code} : int64_t{ends_[code - 1]};
  }
  size_t HeavyPlace(uint32_t code) const;  // of the first heavy code at or after `code`
  // Returns the rows of the plain list of a code, ascending. Requires: the code has no bitmap.
  absl::Span<const uint32_t> Light(uint32_t code) const;
  int64_t HeavyEntriesBefore(size_t place) const;
  void Collect(CodeRange range, Parts* parts) const;
  const Cut& NearestCut(uint32_t code) const;
  OrdinalSet RangeByCuts(CodeRange range, OrdinalBits* scratch) const;
  OrdinalSet Sum(const Parts& parts, OrdinalBits* scratch) const;

  uint32_t first_ = 0;  // range of all ordinals in the lists
  uint32_t last_ = 0;
  uint32_t codes_count_ = 0;
  bool unique_ = true;          // each code has exactly one row: ends_ is empty
  std::vector<uint32_t> ends_;  // number of rows up to and including each code
  std::vector<uint32_t> light_rows_;
  std::vector<HeavyRows> heavy_;  // ascending code
  int64_t heavy_entries_ = 0;     // sum of the rows of all heavy codes
  std::vector<Cut> cuts_;         // ascending code; empty, or the first is at code 0
};

class PostingListsBuilder {
 public:
  // Adds the rows of the next code. Requires: at least one row; rows ascend.
  void AddCode(absl::Span<const uint32_t> ordinals);
  // `one_value_a_row`: no row has two codes. The builder cannot be used afterwards.
  PostingLists Build(bool one_value_a_row);

 private:
  void BuildCuts();

  PostingLists lists_;
  int64_t entries_ = 0;
};

}  // namespace nearfield::server
