// FoundGroups: the best groups of one query, collected from rows that come in the order of the
// answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// The groups that a search asks for.
struct Grouping {
  std::string attribute;  // its name
  int32_t rows_max = 0;   // of each group
};

// The groups of one answer, best first; the rows of the answer are one group after the other.
struct GroupColumn {
  ValueColumn values;                 // the zeros are +0
  std::vector<uint32_t> rows_counts;  // at least 1 each
  // Groups before the answer, of earlier pages: their values, and the id of the best row of each.
  ValueColumn values_before;
  IdColumn ids_before;
};

class FoundGroups {
 public:
  // The groups that the answer has: those at [skip, skip + k) of the order, with at most `rows_max`
  // rows each. `tell_more`: also whether another group follows.
  struct Wanted {
    int64_t skip = 0;
    int64_t k = 0;
    int32_t rows_max = 0;
    bool tell_more = false;

    int64_t groups_max() const { return skip + k + (tell_more ? 1 : 0); }
  };
  FoundGroups(AttributeType type, IdType id_type, const Wanted& wanted);

  // Returns the values of rows [begin, end).
  using ValuesOf = absl::FunctionRef<absl::StatusOr<ValueColumn>(int64_t begin, int64_t end)>;
  // Adds the next rows of the order; no group that was found before has one of them. Reads some of
  // their values at a time, until the groups of the answer have all of their rows. `last`: no other
  // row follows. Returns the values of the groups that are new. Errors: those of `values_of`.
  absl::StatusOr<ValueColumn> Add(const Neighbors& rows, ValuesOf values_of, bool last);
  // Returns true if all wanted groups are known.
  bool complete() const { return ended_ || values_.size() == wanted_.groups_max(); }

  // Returns the groups of the answer of which there may be more rows. Requires: complete().
  std::vector<int64_t> Unfilled() const;
  // Takes the rows of these groups from `rows`, which come in the order, each with its value, and
  // have all rows of each group, or at least the first rows_max of them.
  void Fill(absl::Span<const int64_t> groups, const Neighbors& rows, const ValueColumn& values);

  // Returns the values of all groups found so far, in their order.
  const ValueColumn& values() const { return values_; }
  // Returns true if a group follows those of the answer.
  bool more() const { return values_.size() > wanted_.skip + wanted_.k; }
  // Moves the ids, scores, their parts and ordinals of the answer to *answer. Requires: complete(),
  // and every group is filled.
  GroupColumn Take(Neighbors* answer);
  // Returns the bytes of host memory.
  int64_t bytes() const;

 private:
  struct Group {
    Neighbors rows;      // the best rows known: ids, scores, their parts and ordinals
    bool whole = false;  // no other row is in the group
  };

  // Returns true if all wanted groups are known, and those of the answer are full.
  bool full() const;
  bool IsShown(int64_t group) const {
    return group >= wanted_.skip && group < wanted_.skip + wanted_.k;
  }
  Group& ShownGroup(int64_t group) { return groups_[static_cast<size_t>(group - wanted_.skip)]; }
  // Appends row `row` of `from` to the group, unless the group is full or not shown.
  void AppendRow(int64_t group, const Neighbors& from, int64_t row);

  const IdType id_type_;
  const Wanted wanted_;
  ValueColumn values_;         // of all groups
  IdColumn ids_before_;        // the best rows of the groups before the answer
  std::vector<Group> groups_;  // of the answer
  bool ended_ = false;         // no row follows
};

}  // namespace nearfield::server
