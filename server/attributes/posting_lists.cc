#include "server/attributes/posting_lists.h"

#include <algorithm>
#include <utility>

namespace nearfield::server {
namespace {

// Up to this many rows, sorting a list is cheaper than filling the bits of a chunk.
constexpr int64_t kSortedRowsMax = 1024;

}  // namespace

void OrdinalBits::Reset(uint32_t first, uint32_t last) {
  base_ = first & ~uint32_t{0xffff};
  words_.assign((last - base_) / 64 + 1, 0);
}

size_t PostingLists::HeavyPlace(uint32_t code) const {
  const auto place =
      std::lower_bound(heavy_.begin(), heavy_.end(), code,
                       [](const HeavyRows& heavy, uint32_t wanted) { return heavy.code < wanted; });
  return static_cast<size_t>(place - heavy_.begin());
}

const OrdinalSet* PostingLists::Heavy(uint32_t code) const {
  const size_t place = HeavyPlace(code);
  return place < heavy_.size() && heavy_[place].code == code ? &heavy_[place].rows : nullptr;
}

int64_t PostingLists::HeavyEntriesBefore(size_t place) const {
  return place < heavy_.size() ? heavy_[place].entries_before : heavy_entries_;
}

// Plain lists are contiguous, so those between two heavy codes are one span.
void PostingLists::Collect(CodeRange range, Parts* parts) const {
  size_t place = HeavyPlace(range.begin);
  int64_t heavy_before = HeavyEntriesBefore(place);
  for (uint32_t begin = range.begin; begin < range.end; ++place) {
    const bool more = place < heavy_.size() && heavy_[place].code < range.end;
    const uint32_t end = more ? heavy_[place].code : range.end;
    const int64_t count = EntriesBelow(end) - EntriesBelow(begin);
    if (count > 0) {
      const auto at = static_cast<size_t>(EntriesBelow(begin) - heavy_before);
      parts->light.push_back(
          absl::MakeConstSpan(light_rows_).subspan(at, static_cast<size_t>(count)));
      parts->light_count += count;
    }
    if (!more) return;
    parts->heavy.push_back(&heavy_[place].rows);
    heavy_before += heavy_[place].rows.size();
    begin = end + 1;
  }
}

OrdinalSet PostingLists::Sum(const Parts& parts, OrdinalBits* scratch) const {
  OrdinalSet sum;
  if (parts.light_count > kSortedRowsMax) {
    scratch->Reset(first_, last_);
    for (const absl::Span<const uint32_t> rows : parts.light) {
      for (const uint32_t ordinal : rows) scratch->Set(ordinal);
    }
    sum = scratch->ToSet();
  } else if (parts.light_count > 0) {
    std::vector<uint32_t> rows;
    rows.reserve(static_cast<size_t>(parts.light_count));
    for (const absl::Span<const uint32_t> part : parts.light) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    sum = OrdinalSet::FromSorted(rows);
  }
  if (parts.heavy.empty()) return sum;
  std::vector<const OrdinalSet*> sets = parts.heavy;
  if (parts.light_count > 0) sets.push_back(&sum);
  return sets.size() == 1 ? *sets.front() : OrdinalSet::Union(sets);
}

const PostingLists::Cut& PostingLists::NearestCut(uint32_t code) const {
  const auto after =
      std::lower_bound(cuts_.begin(), cuts_.end(), code,
                       [](const Cut& cut, uint32_t wanted) { return cut.code < wanted; });
  if (after == cuts_.begin()) return *after;
  const auto before = after - 1;
  if (after == cuts_.end()) return *before;
  const int64_t entries = EntriesBelow(code);
  return entries - EntriesBelow(before->code) <= EntriesBelow(after->code) - entries ? *before
                                                                                     : *after;
}

// The rows below a code are those below a cut, with the rows between the two toggled. The rows of a
// range are those below its end, with those below its begin toggled. Toggles commute, so their
// order does not matter.
OrdinalSet PostingLists::RangeByCuts(CodeRange range, OrdinalBits* scratch) const {
  Parts edges;
  const auto cut_for = [&](uint32_t code) {
    const Cut& cut = NearestCut(code);
    Collect({std::min(code, cut.code), std::max(code, cut.code)}, &edges);
    return &cut;
  };
  const Cut* const begin = cut_for(range.begin);
  const Cut* const end = cut_for(range.end);
  OrdinalSet rows = begin == end
                        ? OrdinalSet()
                        : OrdinalSet::SymmetricDifference(begin->rows_below, end->rows_below);
  if (edges.light_count > 0) {
    scratch->Reset(first_, last_);
    for (const absl::Span<const uint32_t> light : edges.light) {
      for (const uint32_t ordinal : light) scratch->Toggle(ordinal);
    }
    rows.ToggleAll(scratch->ToSet());
  }
  for (const OrdinalSet* heavy : edges.heavy) rows.ToggleAll(*heavy);
  return rows;
}

OrdinalSet PostingLists::Union(absl::Span<const CodeRange> ranges, OrdinalBits* scratch) const {
  if (ranges.size() == 1 && !cuts_.empty() && entries_count(ranges[0]) > kCutRangeRows) {
    return RangeByCuts(ranges[0], scratch);
  }
  Parts parts;
  for (const CodeRange range : ranges) Collect(range, &parts);
  return Sum(parts, scratch);
}

absl::Span<const uint32_t> PostingLists::Light(uint32_t code) const {
  const int64_t begin = EntriesBelow(code) - HeavyEntriesBefore(HeavyPlace(code));
  const int64_t count = EntriesBelow(code + 1) - EntriesBelow(code);
  return absl::MakeConstSpan(light_rows_)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

int64_t PostingLists::CountIn(uint32_t code, const RowFilter& bits, const OrdinalSet& rows) const {
  if (const OrdinalSet* heavy = Heavy(code)) return heavy->IntersectionSize(rows);
  return std::ranges::count_if(Light(code), [&](uint32_t row) { return bits.Chooses(row); });
}

void PostingLists::AppendRows(uint32_t code, std::vector<uint32_t>* ordinals) const {
  if (const OrdinalSet* heavy = Heavy(code)) {
    const std::vector<uint32_t> rows = heavy->ToVector();
    ordinals->insert(ordinals->end(), rows.begin(), rows.end());
    return;
  }
  const absl::Span<const uint32_t> rows = Light(code);
  ordinals->insert(ordinals->end(), rows.begin(), rows.end());
}

int64_t PostingLists::BytesMax(bool one_value_a_row, int64_t entries, int64_t span) {
  // The number of rows up to each value, and the rows. A bitmap is smaller than the list that it
  // replaces. The vectors of bitmaps may have twice the room that they use.
  int64_t bytes = static_cast<int64_t>(sizeof(PostingLists)) + 8 * entries +
                  entries / kHeavyRows * 2 * static_cast<int64_t>(sizeof(HeavyRows));
  if (one_value_a_row && entries > kCutRangeRows) {
    bytes += (entries / kCutRows + 2) *
             (2 * static_cast<int64_t>(sizeof(Cut)) + OrdinalSet::BytesMax(entries, span));
  }
  return bytes;
}

int64_t PostingLists::bytes() const {
  int64_t bytes =
      static_cast<int64_t>(sizeof *this + 4 * (ends_.capacity() + light_rows_.capacity()));
  for (const HeavyRows& heavy : heavy_) {
    bytes += static_cast<int64_t>(sizeof heavy) + heavy.rows.bytes();
  }
  for (const Cut& cut : cuts_) bytes += static_cast<int64_t>(sizeof cut) + cut.rows_below.bytes();
  return bytes;
}

void PostingListsBuilder::AddCode(absl::Span<const uint32_t> ordinals) {
  lists_.first_ = entries_ == 0 ? ordinals.front() : std::min(lists_.first_, ordinals.front());
  lists_.last_ = std::max(lists_.last_, ordinals.back());
  entries_ += static_cast<int64_t>(ordinals.size());
  lists_.ends_.push_back(static_cast<uint32_t>(entries_));
  if (ordinals.size() >= PostingLists::kHeavyRows) {
    OrdinalSet rows = OrdinalSet::FromSorted(ordinals);
    rows.Compact();
    lists_.heavy_.push_back({.code = lists_.codes_count_,
                             .entries_before = lists_.heavy_entries_,
                             .rows = std::move(rows)});
    lists_.heavy_entries_ += static_cast<int64_t>(ordinals.size());
  } else {
    lists_.light_rows_.insert(lists_.light_rows_.end(), ordinals.begin(), ordinals.end());
  }
  ++lists_.codes_count_;
}

void PostingListsBuilder::BuildCuts() {
  const uint32_t codes_count = lists_.codes_count_;
  lists_.cuts_.push_back({.code = 0, .rows_below = {}});
  OrdinalBits scratch;
  for (uint32_t code = 1; code <= codes_count; ++code) {
    const uint32_t before = lists_.cuts_.back().code;
    const bool due = lists_.entries_count({before, code}) >= PostingLists::kCutRows;
    if (!due && code < codes_count) continue;
    PostingLists::Parts parts;
    lists_.Collect({before, code}, &parts);
    OrdinalSet rows = lists_.Sum(parts, &scratch);
    rows.UniteWith(lists_.cuts_.back().rows_below);
    rows.Compact();
    lists_.cuts_.push_back({.code = code, .rows_below = std::move(rows)});
  }
}

PostingLists PostingListsBuilder::Build(bool one_value_a_row) {
  lists_.unique_ = entries_ == int64_t{lists_.codes_count_};
  if (lists_.unique_) lists_.ends_ = {};
  lists_.ends_.shrink_to_fit();
  lists_.light_rows_.shrink_to_fit();
  if (one_value_a_row && entries_ > PostingLists::kCutRangeRows) BuildCuts();
  return std::move(lists_);
}

}  // namespace nearfield::server
