// AttributeIndex::Merge.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "server/attributes/attribute_index.h"

namespace nearfield::server {
namespace {

// Consecutive present rows of a part.
struct Piece {
  uint64_t first = 0;  // ordinal
  size_t part = 0;
  int64_t place = 0;  // among the present rows of the part
  int64_t count = 0;
};

// Appends the pieces of `present`, which is that of a part, without `dead`.
void AppendPieces(const OrdinalSet& present, const OrdinalSet& dead, size_t part,
                  std::vector<Piece>* pieces) {
  std::vector<OrdinalRange> all;
  present.ForEachRange([&](OrdinalRange range) { all.push_back(range); });
  size_t at = 0;
  uint64_t before = 0;  // present rows before all[at]
  OrdinalSet::Difference(present, dead).ForEachRange([&](OrdinalRange live) {
    for (; all[at].end <= live.begin; ++at) before += all[at].end - all[at].begin;
    pieces->push_back({.first = live.begin,
                       .part = part,
                       .place = static_cast<int64_t>(before + live.begin - all[at].begin),
                       .count = static_cast<int64_t>(live.end - live.begin)});
  });
}

}  // namespace

// Merges parts in one pass over the distinct values of all parts, in order, and then one over the
// rows.
class IndexMerger {
 public:
  IndexMerger(bool is_keyword, absl::Span<const AttributeIndex* const> parts)
      : is_keyword_(is_keyword), parts_(parts), next_(parts.size(), 0), new_codes_(parts.size()) {
    for (size_t p = 0; p < parts.size(); ++p) {
      new_codes_[p].resize(parts[p]->rows_.codes_count() + size_t{1});
    }
  }

  AttributeIndex Run(bool is_list, const OrdinalSet& dead) {
    AttributeIndex merged;
    std::vector<const OrdinalSet*> present;
    for (const AttributeIndex* part : parts_) present.push_back(&part->present_);
    OrdinalSet live = OrdinalSet::Union(present);
    live.Subtract(dead);
    merged.SetPresent(std::move(live));
    const bool any_dead = !dead.empty();
    PostingListsBuilder builder;
    std::vector<uint32_t> rows;
    uint32_t codes_count = 0;
    while (FindLeast()) {
      TakeRows(codes_count, &rows);
      if (any_dead) {
        rows.erase(std::remove_if(rows.begin(), rows.end(),
                                  [&](uint32_t ordinal) { return dead.Contains(ordinal); }),
                   rows.end());
      }
      if (!rows.empty()) {
        AppendLeast(&merged);
        builder.AddCode(rows);
        ++codes_count;
      }
      rows.clear();
    }
    merged.keys_.shrink_to_fit();
    merged.rows_ = builder.Build(!is_list);
    merged.values_ = MergeValues(is_list, merged.negative_zero_code(), dead);
    return merged;
  }

 private:
  // Returns false if no value is left; else stores the smallest one.
  bool FindLeast() {
    bool found = false;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (next_[p] >= parts_[p]->rows_.codes_count()) continue;
      if (is_keyword_) {
        const std::string_view keyword = parts_[p]->keywords_.at(next_[p]);
        if (!found || keyword < keyword_) keyword_ = keyword;
      } else {
        const int64_t key = parts_[p]->keys_[next_[p]];
        if (!found || key < key_) key_ = key;
      }
      found = true;
    }
    return found;
  }
  void AppendLeast(AttributeIndex* merged) const {
    if (is_keyword_) {
      merged->keywords_.Append(keyword_);
    } else {
      merged->keys_.push_back(key_);
    }
  }
  // Collects the rows of the stored value part by part. They are usually in order already. `code`:
  // the value's new code if any row is left.
  void TakeRows(uint32_t code, std::vector<uint32_t>* rows) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (next_[p] >= parts_[p]->rows_.codes_count()) continue;
      const bool same = is_keyword_ ? parts_[p]->keywords_.at(next_[p]) == keyword_
                                    : parts_[p]->keys_[next_[p]] == key_;
      if (!same) continue;
      new_codes_[p][next_[p]] = code;
      parts_[p]->rows_.AppendRows(next_[p]++, rows);
    }
    if (!std::is_sorted(rows->begin(), rows->end())) std::sort(rows->begin(), rows->end());
  }

  // Returns true if the rows of each part come after those of the previous parts.
  bool RowsFollow() const {
    int64_t last = -1;
    for (const AttributeIndex* part : parts_) {
      if (part->present_.empty()) continue;
      if (part->present_.first() <= last) return false;
      last = part->present_.last();
    }
    return true;
  }

  // Returns the values of the live rows of all parts, with their new codes.
  RowValues MergeValues(bool is_list, uint32_t negative_zero_code, const OrdinalSet& dead) {
    const bool whole = dead.empty() && RowsFollow();
    std::vector<Piece> pieces;
    for (size_t p = 0; p < parts_.size(); ++p) {
      new_codes_[p].back() = negative_zero_code;
      const OrdinalSet& present = parts_[p]->present_;
      if (!whole) {
        AppendPieces(present, dead, p, &pieces);
      } else if (!present.empty()) {
        pieces.push_back({.first = present.first(), .part = p, .count = present.size()});
      }
    }
    const auto by_first = [](const Piece& a, const Piece& b) { return a.first < b.first; };
    if (!std::is_sorted(pieces.begin(), pieces.end(), by_first)) {
      std::sort(pieces.begin(), pieces.end(), by_first);
    }
    RowCodes rows;
    for (const Piece& piece : pieces) {
      parts_[piece.part]->values_.AppendTo(piece.place, piece.count, new_codes_[piece.part], &rows);
    }
    return RowValues(is_list, rows);
  }

  const bool is_keyword_;
  const absl::Span<const AttributeIndex* const> parts_;
  std::vector<uint32_t> next_;  // next code of each part
  // The new code for each code of each part, and for -0. Codes that only dead rows had are not set.
  std::vector<std::vector<uint32_t>> new_codes_;
  int64_t key_ = 0;
  std::string_view keyword_;
};

AttributeIndex AttributeIndex::Merge(const AttributeSpec& spec,
                                     absl::Span<const AttributeIndex* const> parts,
                                     const OrdinalSet& dead) {
  return IndexMerger(spec.type == AttributeType::kKeyword, parts).Run(spec.is_list, dead);
}

}  // namespace nearfield::server
