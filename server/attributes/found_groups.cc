#include "server/attributes/found_groups.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

constexpr int64_t kNoGroup = -1;
constexpr int64_t kRowsAtOnce = 128;  // whose values are read together

// Returns bytes that are equal for equal values of one type, and only for them.
std::string KeyOf(const ValueColumn& values, int64_t index) {
  if (values.is_keyword()) return std::string(values.keyword(index));
  const int64_t key = values.key(index);
  return {reinterpret_cast<const char*>(&key), sizeof key};
}

// Appends a value; the zeros become +0.
void AppendCanonical(const ValueColumn& from, int64_t index, ValueColumn* to) {
  if (from.is_keyword()) {
    to->AppendKeyword(from.keyword(index));
  } else {
    to->AppendKey(from.key(index));
  }
}

}  // namespace

FoundGroups::FoundGroups(AttributeType type, IdType id_type, const Wanted& wanted)
    : id_type_(id_type), wanted_(wanted), values_(type), ids_before_(id_type) {}

void FoundGroups::AppendRow(int64_t group, const Neighbors& from, int64_t row) {
  if (!IsShown(group)) return;
  Neighbors& rows = ShownGroup(group).rows;
  if (rows.ids.size() == wanted_.rows_max) return;
  rows.ids.AppendFrom(from.ids, row);
  rows.scores.push_back(from.scores[static_cast<size_t>(row)]);
  rows.ordinals.push_back(from.ordinals[static_cast<size_t>(row)]);
  if (!from.parts.empty()) rows.parts.push_back(from.parts[static_cast<size_t>(row)]);
}

bool FoundGroups::full() const {
  return values_.size() == wanted_.groups_max() &&
         std::all_of(groups_.begin(), groups_.end(), [this](const Group& group) {
           return group.rows.ids.size() == wanted_.rows_max;
         });
}

absl::StatusOr<ValueColumn> FoundGroups::Add(const Neighbors& rows, ValuesOf values_of, bool last) {
  const size_t first_shown = groups_.size();
  ValueColumn new_values(values_.type());
  std::unordered_map<std::string, int64_t> groups;  // of these rows
  const int64_t rows_count = rows.ids.size();
  for (int64_t begin = 0; begin < rows_count && !full(); begin += kRowsAtOnce) {
    const int64_t end = std::min(rows_count, begin + kRowsAtOnce);
    ABSL_ASSIGN_OR_RETURN(const ValueColumn values, values_of(begin, end));
    DCHECK_EQ(values.size(), end - begin);
    for (int64_t i = 0; i < values.size(); ++i) {
      const auto [place, is_new] = groups.try_emplace(KeyOf(values, i), values_.size());
      if (is_new && values_.size() == wanted_.groups_max()) {
        place->second = kNoGroup;
      } else if (is_new) {
        if (values_.size() < wanted_.skip) ids_before_.AppendFrom(rows.ids, begin + i);
        AppendCanonical(values, i, &values_);
        AppendCanonical(values, i, &new_values);
        if (IsShown(place->second)) groups_.push_back({.rows = {.ids = IdColumn(id_type_)}});
      }
      AppendRow(place->second, rows, begin + i);
    }
  }
  ended_ = last;
  for (size_t group = first_shown; group < groups_.size(); ++group) groups_[group].whole = last;
  return new_values;
}

std::vector<int64_t> FoundGroups::Unfilled() const {
  DCHECK(complete());
  std::vector<int64_t> unfilled;
  for (size_t place = 0; place < groups_.size(); ++place) {
    const Group& group = groups_[place];
    if (group.whole || group.rows.ids.size() == wanted_.rows_max) continue;
    unfilled.push_back(wanted_.skip + static_cast<int64_t>(place));
  }
  return unfilled;
}

void FoundGroups::Fill(absl::Span<const int64_t> groups, const Neighbors& rows,
                       const ValueColumn& values) {
  std::unordered_map<std::string, int64_t> by_value;
  for (const int64_t group : groups) {
    by_value[KeyOf(values_, group)] = group;
    ShownGroup(group) = {.rows = {.ids = IdColumn(id_type_)}, .whole = true};
  }
  for (int64_t row = 0; row < values.size(); ++row) {
    const auto group = by_value.find(KeyOf(values, row));
    CHECK(group != by_value.end());
    AppendRow(group->second, rows, row);
  }
}

GroupColumn FoundGroups::Take(Neighbors* answer) {
  GroupColumn column = {.values = ValueColumn(values_.type()),
                        .rows_counts = {},
                        .values_before = ValueColumn(values_.type()),
                        .ids_before = std::move(ids_before_)};
  for (int64_t group = 0; group < std::min(wanted_.skip, values_.size()); ++group) {
    AppendCanonical(values_, group, &column.values_before);
  }
  answer->ids = IdColumn(id_type_);
  for (size_t place = 0; place < groups_.size(); ++place) {
    AppendCanonical(values_, wanted_.skip + static_cast<int64_t>(place), &column.values);
    const Neighbors& rows = groups_[place].rows;
    column.rows_counts.push_back(static_cast<uint32_t>(rows.ids.size()));
    for (int64_t row = 0; row < rows.ids.size(); ++row) {
      answer->ids.AppendFrom(rows.ids, row);
      answer->scores.push_back(rows.scores[static_cast<size_t>(row)]);
      answer->ordinals.push_back(rows.ordinals[static_cast<size_t>(row)]);
    }
    answer->parts.insert(answer->parts.end(), rows.parts.begin(), rows.parts.end());
  }
  answer->more = more();
  groups_.clear();
  return column;
}

int64_t FoundGroups::bytes() const {
  constexpr int64_t kScoreAndOrdinalBytes = 8;
  // Take copies the values.
  int64_t bytes = 2 * values_.bytes() + ids_before_.bytes() +
                  static_cast<int64_t>(groups_.capacity() * sizeof(Group));
  for (const Group& group : groups_) {
    bytes += group.rows.ids.bytes() + group.rows.ids.size() * kScoreAndOrdinalBytes +
             static_cast<int64_t>(group.rows.parts.size() * sizeof(ScoreParts));
  }
  return bytes;
}

}  // namespace nearfield::server
