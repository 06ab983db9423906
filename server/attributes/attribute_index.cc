#include "server/attributes/attribute_index.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "absl/hash/hash.h"

namespace nearfield::server {
namespace {

struct KeyedRow {
  int64_t key = 0;
  uint32_t ordinal = 0;
};

// Adds the rows of one value, without duplicates: a list may contain a value twice. Requires:
// `rows` ascends.
void AddRows(std::vector<uint32_t>* rows, PostingListsBuilder* builder) {
  rows->erase(std::unique(rows->begin(), rows->end()), rows->end());
  builder->AddCode(*rows);
  rows->clear();
}

std::vector<int64_t> BuildNumbers(const AttributeEntries& entries, PostingListsBuilder* builder) {
  std::vector<KeyedRow> sorted(entries.ordinals.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = {entries.values.key(static_cast<int64_t>(i)), entries.ordinals[i]};
  }
  std::sort(sorted.begin(), sorted.end(), [](const KeyedRow& a, const KeyedRow& b) {
    return a.key != b.key ? a.key < b.key : a.ordinal < b.ordinal;
  });
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < sorted.size(); ++i) {
    rows.push_back(sorted[i].ordinal);
    if (i + 1 < sorted.size() && sorted[i + 1].key == sorted[i].key) continue;
    keys.push_back(sorted[i].key);
    AddRows(&rows, builder);
  }
  keys.shrink_to_fit();
  return keys;
}

BytesColumn BuildKeywords(const AttributeEntries& entries, PostingListsBuilder* builder) {
  // Number the distinct keywords by first occurrence, group the rows by number, then sort the
  // keywords.
  std::unordered_map<std::string_view, uint32_t, absl::Hash<std::string_view>> numbers;
  std::vector<std::string_view> distinct;
  std::vector<uint32_t> number_of(entries.ordinals.size());
  std::vector<size_t> begins(1, 0);
  for (size_t i = 0; i < number_of.size(); ++i) {
    const std::string_view keyword = entries.values.keyword(static_cast<int64_t>(i));
    const auto [place, is_new] =
        numbers.try_emplace(keyword, static_cast<uint32_t>(distinct.size()));
    if (is_new) {
      distinct.push_back(keyword);
      begins.push_back(0);
    }
    number_of[i] = place->second;
    ++begins[number_of[i] + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<uint32_t> rows_by_number(number_of.size());
  std::vector<size_t> next(begins.begin(), begins.end() - 1);
  for (size_t i = 0; i < number_of.size(); ++i) {
    rows_by_number[next[number_of[i]]++] = entries.ordinals[i];
  }

  std::vector<uint32_t> order(distinct.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return distinct[a] < distinct[b]; });
  BytesColumn keywords;
  std::vector<uint32_t> rows;
  for (const uint32_t number : order) {
    keywords.Append(distinct[number]);
    rows.assign(rows_by_number.begin() + static_cast<ptrdiff_t>(begins[number]),
                rows_by_number.begin() + static_cast<ptrdiff_t>(begins[number + 1]));
    AddRows(&rows, builder);
  }
  return keywords;
}

// Returns the first code in [from, end) that is not below the wanted value, or `end`. Uses a
// galloping search: the next of many ascending values is usually close to the last one.
template <typename IsBelow>
uint32_t FirstNotBelow(uint32_t from, uint32_t end, IsBelow is_below) {
  uint32_t begin = from;
  for (uint32_t step = 1; from > 0 && step < end - begin; step *= 2) {
    if (!is_below(begin + step)) {
      end = begin + step;
      break;
    }
    begin += step + 1;
  }
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (is_below(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace

AttributeIndex AttributeIndex::Build(const AttributeSpec& spec, const AttributeEntries& entries) {
  AttributeIndex index;
  PostingListsBuilder builder;
  if (spec.type == AttributeType::kKeyword) {
    index.keywords_ = BuildKeywords(entries, &builder);
  } else {
    index.keys_ = BuildNumbers(entries, &builder);
  }
  index.rows_ = builder.Build(!spec.is_list);
  index.present_ = OrdinalSet::FromSorted(entries.present);
  index.present_.Compact();
  return index;
}

uint32_t AttributeIndex::LowerBound(const ValueColumn& values, int64_t index, uint32_t from) const {
  const int64_t key = values.is_keyword() ? 0 : values.key(index);
  const std::string_view keyword = values.is_keyword() ? values.keyword(index) : "";
  return FirstNotBelow(from, rows_.codes_count(), [&](uint32_t code) {
    return values.is_keyword() ? keywords_.at(code) < keyword : keys_[code] < key;
  });
}

bool AttributeIndex::Holds(uint32_t code, const ValueColumn& values, int64_t index) const {
  if (code >= rows_.codes_count()) return false;
  return values.is_keyword() ? keywords_.at(code) == values.keyword(index)
                             : keys_[code] == values.key(index);
}

CodeRange AttributeIndex::Find(Comparison comparison, const ValueColumn& values, int64_t index,
                               uint32_t from) const {
  const uint32_t below = LowerBound(values, index, from);
  const uint32_t not_above = below + (Holds(below, values, index) ? 1 : 0);
  const uint32_t all = rows_.codes_count();
  switch (comparison) {
    case Comparison::kEqual:
    case Comparison::kNotEqual: return {below, not_above};
    case Comparison::kLess: return {0, below};
    case Comparison::kLessEqual: return {0, not_above};
    case Comparison::kGreater: return {not_above, all};
    case Comparison::kGreaterEqual: return {below, all};
  }
  return {};
}

int64_t AttributeIndex::bytes() const {
  return static_cast<int64_t>(sizeof *this + 8 * keys_.capacity()) + keywords_.bytes() +
         present_.bytes() + rows_.bytes();
}

// Merges parts in one pass over the distinct values of all parts, in order.
class IndexMerger {
 public:
  IndexMerger(bool is_keyword, absl::Span<const AttributeIndex* const> parts)
      : is_keyword_(is_keyword), parts_(parts), next_(parts.size(), 0) {}

  AttributeIndex Run(bool is_list, const OrdinalSet& dead) {
    AttributeIndex merged;
    std::vector<const OrdinalSet*> present;
    for (const AttributeIndex* part : parts_) present.push_back(&part->present_);
    merged.present_ = OrdinalSet::Union(present);
    merged.present_.Subtract(dead);
    merged.present_.Compact();
    const bool any_dead = !dead.empty();
    PostingListsBuilder builder;
    std::vector<uint32_t> rows;
    while (FindLeast()) {
      TakeRows(&rows);
      if (any_dead) {
        rows.erase(std::remove_if(rows.begin(), rows.end(),
                                  [&](uint32_t ordinal) { return dead.Contains(ordinal); }),
                   rows.end());
      }
      if (!rows.empty()) {
        AppendLeast(&merged);
        builder.AddCode(rows);
      }
      rows.clear();
    }
    merged.keys_.shrink_to_fit();
    merged.rows_ = builder.Build(!is_list);
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
  // Collects the rows of the stored value part by part. They are usually in order already.
  void TakeRows(std::vector<uint32_t>* rows) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (next_[p] >= parts_[p]->rows_.codes_count()) continue;
      const bool same = is_keyword_ ? parts_[p]->keywords_.at(next_[p]) == keyword_
                                    : parts_[p]->keys_[next_[p]] == key_;
      if (same) parts_[p]->rows_.AppendRows(next_[p]++, rows);
    }
    if (!std::is_sorted(rows->begin(), rows->end())) std::sort(rows->begin(), rows->end());
  }

  const bool is_keyword_;
  const absl::Span<const AttributeIndex* const> parts_;
  std::vector<uint32_t> next_;  // next code of each part
  int64_t key_ = 0;
  std::string_view keyword_;
};

AttributeIndex AttributeIndex::Merge(const AttributeSpec& spec,
                                     absl::Span<const AttributeIndex* const> parts,
                                     const OrdinalSet& dead) {
  return IndexMerger(spec.type == AttributeType::kKeyword, parts).Run(spec.is_list, dead);
}

}  // namespace nearfield::server
