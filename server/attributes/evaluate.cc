#include "server/attributes/evaluate.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// A set of a chunk's rows or its complement in the chunk. The set is owned, or borrowed from an
// index.
class RowSet {
 public:
  RowSet() = default;  // empty
  explicit RowSet(OrdinalSet owned) : owned_(std::move(owned)) {}
  static RowSet Borrow(const OrdinalSet* set) {
    RowSet rows;
    rows.borrowed_ = set;
    return rows;
  }

  const OrdinalSet& set() const { return borrowed_ != nullptr ? *borrowed_ : owned_; }
  bool is_complement() const { return is_complement_; }
  void Invert() { is_complement_ = !is_complement_; }
  // Both operate on the stored sets and ignore is_complement().
  void IntersectWith(const OrdinalSet& other) {
    if (borrowed_ == nullptr) return owned_.IntersectWith(other);
    *this = RowSet(OrdinalSet::Intersection(*borrowed_, other));
  }
  void Subtract(const OrdinalSet& other) {
    if (borrowed_ == nullptr) return owned_.Subtract(other);
    *this = RowSet(OrdinalSet::Difference(*borrowed_, other));
  }
  OrdinalSet Release() {
    if (borrowed_ != nullptr) return *borrowed_;
    return std::move(owned_);
  }

 private:
  OrdinalSet owned_;
  const OrdinalSet* borrowed_ = nullptr;
  bool is_complement_ = false;
};

// Evaluates one filter over one chunk.
class ChunkEvaluation {
 public:
  // `id_rows`: the rows of each has_id, by condition.
  ChunkEvaluation(const Filter* filter, const AttributeChunk* chunk,
                  absl::Span<const OrdinalSet> id_rows, OrdinalBits* scratch)
      : filter_(filter), chunk_(chunk), id_rows_(id_rows), scratch_(scratch) {}

  OrdinalSet Run() {
    Prepare();
    RowSet rows = Rows(0);
    return rows.is_complement() ? OrdinalSet::Difference(chunk_->rows(), rows.set())
                                : rows.Release();
  }

 private:
  // Facts about a condition that the index gives before any set is built.
  struct Plan {
    std::vector<CodeRange> codes;  // ascending, none empty; list_all: one for each value
    bool impossible = false;       // list_all: some value is in no row
    int64_t rows_guess = 0;        // estimate that determines the order of operands
  };

  const Condition& condition(int32_t place) const {
    return filter_->tree().conditions[static_cast<size_t>(place)];
  }
  const AttributeIndex& index(int32_t place) const {
    return chunk_->index(filter_->attribute(place));
  }
  Plan& plan(int32_t place) { return plans_[static_cast<size_t>(place)]; }

  void Prepare() {
    const auto count = static_cast<int32_t>(filter_->tree().conditions.size());
    plans_.resize(static_cast<size_t>(count));
    for (int32_t place = count - 1; place >= 0; --place) {
      if (TakesValues(condition(place).kind)) FindCodes(place);
      plan(place).rows_guess = GuessRows(place);
    }
  }

  void FindCodes(int32_t place) {
    const Condition& asked = condition(place);
    Plan& found = plan(place);
    uint32_t from = 0;
    for (int64_t value = 0; value < asked.values.size(); ++value) {
      const CodeRange codes = index(place).Find(asked.comparison, asked.values, value, from);
      from = codes.begin;
      if (!codes.empty()) {
        found.codes.push_back(codes);
      } else if (asked.kind == ConditionKind::kListAll) {
        found.impossible = true;
        return;
      }
    }
    // If one of the values is enough, join adjacent codes into one range.
    const bool join = asked.kind != ConditionKind::kListAll;
    size_t kept = 0;
    for (const CodeRange codes : found.codes) {
      if (join && kept > 0 && found.codes[kept - 1].end == codes.begin) {
        found.codes[kept - 1].end = codes.end;
      } else {
        found.codes[kept++] = codes;
      }
    }
    found.codes.resize(kept);
  }

  int64_t GuessRows(int32_t place) {
    const Condition& asked = condition(place);
    const int64_t all = chunk_->rows_count();
    int64_t least = all;
    int64_t sum = 0;
    const auto count = [&](int64_t rows) {
      least = std::min(least, rows);
      sum += rows;
    };
    for (const int32_t child : asked.children) count(plan(child).rows_guess);
    for (const CodeRange codes : plan(place).codes) count(index(place).rows().entries_count(codes));
    switch (asked.kind) {
      case ConditionKind::kAnd: return least;
      case ConditionKind::kListAll: return plan(place).impossible ? 0 : least;
      case ConditionKind::kNot: return all - sum;
      case ConditionKind::kComparison:
        return asked.comparison == Comparison::kNotEqual ? all - sum : sum;
      case ConditionKind::kExists: return index(place).present().size();
      case ConditionKind::kHasId: return id_rows_[static_cast<size_t>(place)].size();
      case ConditionKind::kOr:
      case ConditionKind::kIn:
      case ConditionKind::kListAny: return std::min(sum, all);
    }
    return all;
  }

  // filter_depth_max bounds the recursion.
  RowSet Rows(int32_t place) {
    switch (condition(place).kind) {
      case ConditionKind::kAnd: return Junction(place, /*is_or=*/false);
      case ConditionKind::kOr: return Junction(place, /*is_or=*/true);
      case ConditionKind::kNot: {
        RowSet rows = Rows(condition(place).children[0]);
        rows.Invert();
        return rows;
      }
      case ConditionKind::kComparison: return Compared(place);
      case ConditionKind::kIn:
      case ConditionKind::kListAny: return RowsOf(index(place), plan(place).codes);
      case ConditionKind::kListAll: return HoldingAll(place);
      case ConditionKind::kExists: return RowSet::Borrow(&index(place).present());
      case ConditionKind::kHasId:
        return RowSet(
            OrdinalSet::Intersection(chunk_->rows(), id_rows_[static_cast<size_t>(place)]));
    }
    return {};
  }

  // Union of several sets at once is faster than one by one. More sets would not fit the
  // processor's cache.
  static constexpr size_t kUnionSetsMax = 8;
  static void Unite(std::vector<RowSet>* sets) {
    std::vector<const OrdinalSet*> parts;
    parts.reserve(sets->size());
    for (const RowSet& set : *sets) parts.push_back(&set.set());
    RowSet united(OrdinalSet::Union(parts));
    united.Invert();
    sets->clear();
    sets->push_back(std::move(united));
  }

  // Computes "and" or "or": a or b = not (not a and not b), so one implementation serves both.
  RowSet Junction(int32_t place, bool is_or) {
    std::vector<int32_t> operands = condition(place).children;
    std::stable_sort(operands.begin(), operands.end(),
                     [&](int32_t a, int32_t b) { return plan(a).rows_guess < plan(b).rows_guess; });
    std::optional<RowSet> rows;    // intersection of the operands so far
    std::vector<RowSet> left_out;  // complements still to subtract
    for (const int32_t operand : operands) {
      RowSet next = Rows(operand);
      if (is_or) next.Invert();
      if (next.is_complement()) {
        left_out.push_back(std::move(next));
        if (left_out.size() == kUnionSetsMax) Unite(&left_out);
      } else if (rows.has_value()) {
        rows->IntersectWith(next.set());
      } else {
        rows = std::move(next);
      }
      if (rows.has_value() && rows->set().empty()) break;
    }
    if (left_out.size() > 1) Unite(&left_out);
    if (!rows.has_value()) {
      rows = std::move(left_out.front());
    } else if (!left_out.empty() && !rows->set().empty()) {
      rows->Subtract(left_out.front().set());
    }
    if (is_or) rows->Invert();
    return *std::move(rows);
  }

  RowSet Compared(int32_t place) {
    RowSet rows = RowsOf(index(place), plan(place).codes);
    if (condition(place).comparison != Comparison::kNotEqual) return rows;
    const OrdinalSet& present = index(place).present();
    if (present.size() == chunk_->rows_count()) {
      rows.Invert();
      return rows;
    }
    return RowSet(OrdinalSet::Difference(present, rows.set()));
  }

  RowSet HoldingAll(int32_t place) {
    if (plan(place).impossible) return {};
    std::vector<CodeRange> codes = plan(place).codes;
    const PostingLists& lists = index(place).rows();
    std::sort(codes.begin(), codes.end(), [&](CodeRange a, CodeRange b) {
      return lists.entries_count(a) < lists.entries_count(b);
    });
    std::optional<RowSet> rows;
    for (const CodeRange code : codes) {
      RowSet holding = RowsOf(index(place), {code});
      if (rows.has_value()) {
        rows->IntersectWith(holding.set());
      } else {
        rows = std::move(holding);
      }
      if (rows->set().empty()) break;
    }
    return *std::move(rows);
  }

  // Returns the rows with a code in these ranges.
  RowSet RowsOf(const AttributeIndex& index, const std::vector<CodeRange>& codes) {
    if (codes.empty()) return {};
    if (codes.size() == 1 && codes[0].end - codes[0].begin == 1) {
      if (const OrdinalSet* heavy = index.rows().Heavy(codes[0].begin)) {
        return RowSet::Borrow(heavy);
      }
    }
    return RowSet(index.rows().Union(codes, scratch_));
  }

  const Filter* const filter_;
  const AttributeChunk* const chunk_;
  const absl::Span<const OrdinalSet> id_rows_;
  OrdinalBits* const scratch_;
  std::vector<Plan> plans_;  // by condition
};

absl::StatusOr<OrdinalSet> EvaluateChunks(const Filter& filter, const AttributeSnapshot& snapshot,
                                          const EvaluateOptions& options) {
  const std::vector<Condition>& conditions = filter.tree().conditions;
  std::vector<OrdinalSet> id_rows(filter.has_ids() ? conditions.size() : 0);
  if (filter.has_ids() && !options.resolve_ids) {
    return absl::InternalError("the filter has has_id, and nothing resolves ids");
  }
  for (size_t i = 0; i < id_rows.size(); ++i) {
    if (conditions[i].kind != ConditionKind::kHasId) continue;
    ABSL_ASSIGN_OR_RETURN(id_rows[i], options.resolve_ids(conditions[i].ids));
  }
  OrdinalBits scratch;
  OrdinalSet rows;
  for (const std::shared_ptr<const AttributeChunk>& chunk : snapshot.chunks) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError("no caller waits for the filter's rows any more");
    }
    OrdinalSet part = ChunkEvaluation(&filter, chunk.get(), id_rows, &scratch).Run();
    if (rows.empty()) {
      rows = std::move(part);
    } else {
      rows.UniteWith(part);
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<OrdinalSet> Evaluate(const Filter& filter, const AttributeSnapshot& snapshot,
                                    const EvaluateOptions& options) {
  return CatchOutOfMemory([&] { return EvaluateChunks(filter, snapshot, options); });
}

}  // namespace nearfield::server
