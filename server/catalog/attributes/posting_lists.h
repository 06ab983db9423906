// For each distinct value of an attribute, by its code (its place in value order), the rows that
// have it. The part of an index that is the same for every type.
//
// A value of few rows keeps them in a plain list, 4 bytes each; one of at least kHeavyRows in a
// bitmap of its own. Where each row has one value at most, cuts (all rows below a code, every
// kCutRows rows) make the rows of any range of codes the difference of two cuts and at most
// kCutRows rows at its two ends.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_POSTING_LISTS_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_POSTING_LISTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/catalog/attributes/ordinal_set.h"

namespace nearfield::server {

// Values at or after `begin` and before `end`, in value order.
struct CodeRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool empty() const { return begin >= end; }
};

// A bit for each ordinal of a chunk; memory that evaluations use again and again.
class OrdinalBits {
 public:
  // All clear, for ordinals first .. last.
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

// Immutable; made by PostingListsBuilder.
class PostingLists {
 public:
  static constexpr uint32_t kHeavyRows = 8192;
  static constexpr uint32_t kCutRows = 65536;
  // Ranges of up to so many rows are put together row by row: two cuts, and what lies between them
  // and the range's ends, take longer.
  static constexpr int64_t kCutRangeRows = 2 * int64_t{kCutRows};

  uint32_t codes_count() const { return codes_count_; }
  // Rows of a range of codes; a row with several of them counts as often.
  int64_t entries_count(CodeRange range) const {
    return EntriesBelow(range.end) - EntriesBelow(range.begin);
  }
  // The rows of this code where they are held as a bitmap; else null.
  const OrdinalSet* Heavy(uint32_t code) const;
  // The rows that have a code of these ranges, which ascend and do not overlap. Cost: a nanosecond
  // or two a row of plain lists (at most kCutRangeRows of them where there is one range and cuts),
  // and some microseconds a heavy code.
  OrdinalSet Union(absl::Span<const CodeRange> ranges, OrdinalBits* scratch) const;
  // Appends the rows of a code, ascending.
  void AppendRows(uint32_t code, std::vector<uint32_t>* ordinals) const;
  int64_t bytes() const;

 private:
  friend class PostingListsBuilder;

  struct HeavyRows {
    uint32_t code = 0;
    int64_t entries_before = 0;  // of heavy codes below this one
    OrdinalSet rows;
  };
  struct Cut {
    uint32_t code = 0;
    OrdinalSet rows_below;
  };
  // What Union() does for one part of a range.
  struct Parts {
    std::vector<absl::Span<const uint32_t>> light;
    std::vector<const OrdinalSet*> heavy;
    int64_t light_count = 0;
  };

  int64_t EntriesBelow(uint32_t code) const {
    return unique_ || code == 0 ? int64_t{code} : int64_t{ends_[code - 1]};
  }
  size_t HeavyPlace(uint32_t code) const;  // of the first heavy code at or after `code`
  int64_t HeavyEntriesBefore(size_t place) const;
  void Collect(CodeRange range, Parts* parts) const;
  const Cut& NearestCut(uint32_t code) const;
  OrdinalSet RangeByCuts(CodeRange range, OrdinalBits* scratch) const;
  OrdinalSet Sum(const Parts& parts, OrdinalBits* scratch) const;

  uint32_t first_ = 0;  // of all ordinals here
  uint32_t last_ = 0;
  uint32_t codes_count_ = 0;
  bool unique_ = true;          // each code has exactly one row: ends_ is empty
  std::vector<uint32_t> ends_;  // rows of codes up to and with each one
  std::vector<uint32_t> light_rows_;
  std::vector<HeavyRows> heavy_;  // ascending code
  int64_t heavy_entries_ = 0;     // of all of them
  std::vector<Cut> cuts_;         // ascending code; empty, or the first is at code 0
};

class PostingListsBuilder {
 public:
  // The rows of the next code: ascending, at least one.
  void AddCode(absl::Span<const uint32_t> ordinals);
  // `one_value_a_row`: no row has two codes. The builder is then used up.
  PostingLists Build(bool one_value_a_row);

 private:
  void BuildCuts();

  PostingLists lists_;
  int64_t entries_ = 0;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_POSTING_LISTS_H_
