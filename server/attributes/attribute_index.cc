#include "server/attributes/attribute_index.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"

namespace nearfield::server {
namespace {

struct KeyedRow {
  int64_t key = 0;
  uint32_t ordinal = 0;
  uint32_t entry = 0;  // place in AttributeEntries
};

// Adds the rows of one value, without duplicates: a list may contain a value twice. Requires:
// `rows` ascends.
void AddRows(std::vector<uint32_t>* rows, PostingListsBuilder* builder) {
  rows->erase(std::unique(rows->begin(), rows->end()), rows->end());
  builder->AddCode(*rows);
  rows->clear();
}

// Returns the distinct numbers, and stores the code of each entry in *codes.
std::vector<int64_t> BuildNumbers(const AttributeEntries& entries, PostingListsBuilder* builder,
                                  std::vector<uint32_t>* codes) {
  std::vector<KeyedRow> sorted(entries.ordinals.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = {.key = entries.values.key(static_cast<int64_t>(i)),
                 .ordinal = entries.ordinals[i],
                 .entry = static_cast<uint32_t>(i)};
  }
  std::sort(sorted.begin(), sorted.end(), [](const KeyedRow& a, const KeyedRow& b) {
    return a.key != b.key ? a.key < b.key : a.ordinal < b.ordinal;
  });
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < sorted.size(); ++i) {
    rows.push_back(sorted[i].ordinal);
    (*codes)[sorted[i].entry] = static_cast<uint32_t>(keys.size());
    if (i + 1 < sorted.size() && sorted[i + 1].key == sorted[i].key) continue;
    keys.push_back(sorted[i].key);
    AddRows(&rows, builder);
  }
  keys.shrink_to_fit();
  return keys;
}

// Returns the distinct keywords, and stores the code of each entry in *codes.
BytesColumn BuildKeywords(const AttributeEntries& entries, PostingListsBuilder* builder,
                          std::vector<uint32_t>* codes) {
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
  int64_t keyword_bytes = 0;
  for (const std::string_view keyword : distinct) {
    keyword_bytes += static_cast<int64_t>(keyword.size());
  }
  keywords.Reserve(static_cast<int64_t>(distinct.size()), keyword_bytes);
  std::vector<uint32_t> rows;
  std::vector<uint32_t> code_of(order.size());  // by number
  for (const uint32_t number : order) {
    code_of[number] = static_cast<uint32_t>(keywords.size());
    keywords.Append(distinct[number]);
    rows.assign(rows_by_number.begin() + static_cast<ptrdiff_t>(begins[number]),
                rows_by_number.begin() + static_cast<ptrdiff_t>(begins[number + 1]));
    AddRows(&rows, builder);
  }
  for (size_t i = 0; i < number_of.size(); ++i) (*codes)[i] = code_of[number_of[i]];
  return keywords;
}

// Returns the number of values of each present row.
std::vector<uint32_t> ListSizes(const AttributeEntries& entries) {
  std::vector<uint32_t> sizes;
  sizes.reserve(entries.present.size());
  size_t next = 0;
  for (const uint32_t ordinal : entries.present) {
    const size_t begin = next;
    while (next < entries.ordinals.size() && entries.ordinals[next] == ordinal) ++next;
    sizes.push_back(static_cast<uint32_t>(next - begin));
  }
  return sizes;
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

// Returns the bytes of a number as a varint.
int64_t VarintBytes(uint64_t number) {
  return (static_cast<int64_t>(std::bit_width(number | 1)) + 6) / 7;
}

}  // namespace

AttributeIndex AttributeIndex::Build(const AttributeSpec& spec, const AttributeEntries& entries) {
  AttributeIndex index;
  PostingListsBuilder builder;
  RowCodes rows;
  rows.codes.resize(entries.ordinals.size());
  if (spec.type == AttributeType::kKeyword) {
    index.keywords_ = BuildKeywords(entries, &builder, &rows.codes);
  } else {
    index.keys_ = BuildNumbers(entries, &builder, &rows.codes);
  }
  index.rows_ = builder.Build(!spec.is_list);
  if (spec.type == AttributeType::kDouble) {
    for (size_t i = 0; i < rows.codes.size(); ++i) {
      const bool negative_zero = entries.values.is_negative_zero(static_cast<int64_t>(i));
      if (negative_zero) rows.codes[i] = index.negative_zero_code();
    }
  }
  if (spec.is_list) rows.list_sizes = ListSizes(entries);
  index.values_ = RowValues(spec.is_list, rows);
  index.SetPresent(OrdinalSet::FromSorted(entries.present));
  return index;
}

int64_t AttributeIndex::BuiltBytesMax(const AttributeSpec& spec, const AttributeEntries& entries) {
  const auto values = static_cast<int64_t>(entries.ordinals.size());
  const auto rows = static_cast<int64_t>(entries.present.size());
  const int64_t span = rows == 0 ? 0 : int64_t{entries.present.back()} - entries.present[0] + 1;
  // Like bytes(), this counts the members' own sizes twice.
  return static_cast<int64_t>(sizeof(AttributeIndex)) + entries.values.bytes() +
         OrdinalSet::BytesMax(rows, span) + PostingLists::BytesMax(!spec.is_list, values, span) +
         RowValues::BytesMax(spec.is_list, values, rows);
}

void AttributeIndex::SetPresent(OrdinalSet present) {
  present_ = std::move(present);
  present_.Compact();
  if (present_.empty()) return;
  first_present_ = present_.first();
  present_is_range_ = int64_t{present_.last()} - first_present_ + 1 == present_.size();
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

void AttributeIndex::CopyNumbers(AttributeType type, absl::Span<double> numbers) const {
  std::vector<uint32_t> ordinals;
  for (uint32_t code = 0; code < rows_.codes_count(); ++code) {
    const double number = ValueColumn::NumberOf(type, keys_[code]);
    ordinals.clear();
    rows_.AppendRows(code, &ordinals);
    for (const uint32_t ordinal : ordinals) numbers[ordinal] = number;
  }
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

void AttributeIndex::AppendRow(uint32_t ordinal, AttributeColumn* column) const {
  const bool present = present_.Contains(ordinal);
  column->present.push_back(present);
  if (!present) return;
  const CodePlaces places = values_.PlacesOf(PlaceOf(ordinal));
  if (values_.is_list()) {
    column->list_sizes.push_back(static_cast<uint32_t>(places.end - places.begin));
  }
  for (int64_t place = places.begin; place < places.end; ++place) {
    const uint32_t code = values_.code(place);
    if (code == negative_zero_code()) {
      column->values.AppendDouble(-0.0);
    } else {
      AppendValue(code, &column->values);
    }
  }
}

void AttributeIndex::AppendValue(uint32_t code, ValueColumn* values) const {
  if (values->is_keyword()) {
    values->AppendKeyword(keywords_.at(code));
  } else {
    values->AppendKey(keys_[code]);
  }
}

int AttributeIndex::CompareValue(uint32_t code, const AttributeIndex& other,
                                 uint32_t other_code) const {
  if (keys_.empty()) return keywords_.at(code).compare(other.keywords_.at(other_code));
  const int64_t key = keys_[code];
  const int64_t other_key = other.keys_[other_code];
  return key < other_key ? -1 : static_cast<int>(key > other_key);
}

MessageBytes AttributeIndex::BytesOfValue(uint32_t code, AttributeType type) const {
  constexpr int64_t kNumberBytes = sizeof(int64_t);
  switch (type) {
    case AttributeType::kBool: return {.wire = 1, .held = 1};
    case AttributeType::kDouble: return {.wire = kNumberBytes, .held = kNumberBytes};
    case AttributeType::kKeyword: {
      const auto size = static_cast<int64_t>(keywords_.at(code).size());
      const int64_t wire = 1 + VarintBytes(static_cast<uint64_t>(size)) + size;
      return {.wire = wire, .held = wire};
    }
    default: break;
  }
  const auto key = static_cast<uint64_t>(keys_[code]);
  const int64_t wire = VarintBytes(key << 1 ^ (keys_[code] < 0 ? ~uint64_t{0} : 0));  // sint64
  return {.wire = wire, .held = std::max(wire, kNumberBytes)};
}

MessageBytes AttributeIndex::BytesOfRow(uint32_t ordinal, AttributeType type) const {
  MessageBytes bytes;
  if (!present_.Contains(ordinal)) return bytes;
  const CodePlaces places = values_.PlacesOf(PlaceOf(ordinal));
  if (values_.is_list()) {
    bytes.wire = VarintBytes(static_cast<uint64_t>(places.end - places.begin));
    bytes.held = std::max<int64_t>(bytes.wire, sizeof(uint32_t));
  }
  for (int64_t place = places.begin; place < places.end; ++place) {
    bytes += BytesOfValue(values_.code(place), type);
  }
  return bytes;
}

int64_t AttributeIndex::bytes() const {
  return static_cast<int64_t>(sizeof *this + 8 * keys_.capacity()) + keywords_.bytes() +
         present_.bytes() + rows_.bytes() + values_.bytes();
}

}  // namespace nearfield::server
