#include "server/collections/collection_attributes.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/row_encoding.h"

namespace nearfield::server {
namespace {

// Returns true for an attribute that is declared at the epoch of the schema, and for none (-1).
bool IsDeclared(const AttributeSchema& schema, int32_t attribute) {
  return attribute < 0 || (attribute < schema.size() && !schema.at(attribute).dropped);
}

absl::Status NotDeclared(const char* field, const AttributeSchema& schema, int32_t attribute,
                         uint64_t epoch) {
  const std::string name =
      attribute < schema.size() ? QuoteText(schema.at(attribute).name) : "an attribute";
  return ArgumentError(
      field, absl::StrCat(name, " is not declared at epoch ", epoch, ", which the request reads"));
}

// Dead rows are searched for once there may be more than this number, and more than a quarter of
// the number of live rows. The search costs a pass over all rows.
constexpr int64_t kDeadRowsMin = 1024;
// Attribute memory is scarce once half of it is used. Then dead rows go as soon as there is one for
// each 32 live rows.
constexpr int64_t kScarceShare = 2;
constexpr int64_t kScarceLiveRowsADeadRow = 32;

constexpr uint64_t kOrdinalsEnd = uint64_t{1} << 32;

}  // namespace

CollectionAttributes::CollectionAttributes(AttributeSchema schema,
                                           std::shared_ptr<AttributeShared> shared)
    : shared_(std::move(shared)), columns_(std::move(schema)) {
  schemas_.emplace(0, columns_.Snapshot()->schema);
}

AttributeShared::~AttributeShared() { DCHECK_EQ(memory_bytes.load(), 0); }

void AttributeShared::Release(int64_t bytes) {
  const int64_t left = memory_bytes -= bytes;
  CHECK_GE(left, 0);
}

std::shared_ptr<const AttributeSchema> CollectionAttributes::SchemaAt(
    std::optional<uint64_t> epoch) const {
  const MutexLock lock(schemas_mutex_);
  const auto after = epoch.has_value() ? schemas_.upper_bound(*epoch) : schemas_.end();
  return after == schemas_.begin() ? after->second : std::prev(after)->second;
}

// The columns may get a schema that is never declared: they only read from it the types of
// attributes that some chunk has.
CollectionAttributes::Schemas CollectionAttributes::PrepareSchema(
    uint64_t epoch, std::shared_ptr<const AttributeSchema> schema) {
  columns_.SetSchema(schema);
  Schemas prepared;
  prepared.emplace(epoch, std::move(schema));
  return prepared;
}

void CollectionAttributes::Declare(Schemas prepared) noexcept {
  const MutexLock lock(schemas_mutex_);
  schemas_.merge(prepared);
}

void CollectionAttributes::ForgetSchemas(const Collection& collection) {
  // A request takes the schema before it holds a state, so the state may be the current one.
  const uint64_t oldest = collection.ReachableEpochs().front()->epoch();
  std::vector<int32_t> dropped;
  {
    const MutexLock lock(schemas_mutex_);
    while (schemas_.size() > 1 && std::next(schemas_.begin())->first <= oldest) {
      schemas_.erase(schemas_.begin());
    }
    if (schemas_.size() > 1) return;
    const AttributeSchema& schema = *schemas_.begin()->second;
    for (int32_t number = 0; number < schema.size(); ++number) {
      if (schema.at(number).dropped) dropped.push_back(number);
    }
  }
  if (!dropped.empty()) columns_.Forget(dropped);
}

CollectionAttributes::~CollectionAttributes() { shared_->Release(bytes_noted_); }

void CollectionAttributes::NoteBytes() {
  const MutexLock lock(bytes_mutex_);
  const int64_t bytes = columns_.bytes();
  shared_->memory_bytes += bytes - bytes_noted_;
  bytes_noted_ = bytes;
}

absl::Status CollectionAttributes::CheckDeclared(const char* field,
                                                 absl::Span<const int32_t> attributes,
                                                 uint64_t epoch) const {
  const std::shared_ptr<const AttributeSchema> schema = SchemaAt(epoch);
  for (const int32_t attribute : attributes) {
    if (!IsDeclared(*schema, attribute)) return NotDeclared(field, *schema, attribute, epoch);
  }
  return absl::OkStatus();
}

absl::Status CollectionAttributes::CheckDeclared(const Filter& filter, uint64_t epoch) const {
  return CheckDeclared("filter", filter.attributes(), epoch);
}

absl::Status CollectionAttributes::CheckDeclared(const TermList& terms, uint64_t epoch) const {
  for (const TermList::Term& term : terms.terms()) {
    if (term.filter.has_value()) ABSL_RETURN_IF_ERROR(CheckDeclared(*term.filter, epoch));
    ABSL_RETURN_IF_ERROR(CheckDeclared("terms", {&term.attribute, 1}, epoch));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChosenRows> CollectionAttributes::Choose(const Collection& collection,
                                                        const Filter& filter,
                                                        std::shared_ptr<const PinnedEpoch> at,
                                                        const std::function<bool()>& cancelled) {
  // Pin the state first: a later snapshot has every row of it, as long as the state is held.
  if (at == nullptr) at = collection.PinEpoch();
  ABSL_RETURN_IF_ERROR(CheckDeclared(filter, at->epoch()));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const FilterRows> rows,
                        Evaluate(collection, filter, *columns_.Snapshot(), *at, cancelled));
  return ChosenRows{.at = std::move(at), .rows = rows, .rows_count_max = rows->rows_count};
}

absl::StatusOr<std::shared_ptr<const FilterRows>> CollectionAttributes::Evaluate(
    const Collection& collection, const Filter& filter, const AttributeSnapshot& snapshot,
    const PinnedEpoch& at, const std::function<bool()>& cancelled) {
  EvaluateOptions options;
  options.cancelled = cancelled;
  options.resolve_ids = [&](const IdColumn& ids) -> absl::StatusOr<OrdinalSet> {
    ABSL_ASSIGN_OR_RETURN(const RowFilter rows, collection.RowsWithIds(&at, ids));
    return OrdinalSet::FromWords(0, rows.chosen);
  };
  return shared_->cache.Evaluate(filter, snapshot, options, at.epoch());
}

// As in Choose, the snapshot is later than the state.
absl::StatusOr<std::shared_ptr<const RowTerms>> CollectionAttributes::Bind(
    const Collection& collection, const TermList& terms,
    const std::shared_ptr<const PinnedEpoch>& at, const std::function<bool()>& cancelled) {
  ABSL_RETURN_IF_ERROR(CheckDeclared(terms, at->epoch()));
  const std::shared_ptr<const AttributeSnapshot> snapshot = columns_.Snapshot();
  auto bound = std::make_shared<RowTerms>();
  bound->score_weight = terms.score_weight();
  for (const TermList::Term& term : terms.terms()) {
    RowTerm& row_term = bound->terms.emplace_back();
    row_term.parameters = term.parameters;
    if (term.filter.has_value()) {
      ABSL_ASSIGN_OR_RETURN(row_term.filter,
                            Evaluate(collection, *term.filter, *snapshot, *at, cancelled));
    } else {
      ABSL_ASSIGN_OR_RETURN(row_term.numbers,
                            shared_->numbers.Get(*snapshot, term.attribute, cancelled));
    }
  }
  return bound;
}

std::shared_ptr<const RowTerms> CollectionAttributes::FindKept(const TermList& terms,
                                                               const PinnedEpoch& at) {
  if (!CheckDeclared(terms, at.epoch()).ok()) return nullptr;
  const std::shared_ptr<const AttributeSnapshot> snapshot = columns_.Snapshot();
  auto bound = std::make_shared<RowTerms>();
  bound->score_weight = terms.score_weight();
  for (const TermList::Term& term : terms.terms()) {
    RowTerm& row_term = bound->terms.emplace_back();
    row_term.parameters = term.parameters;
    if (term.filter.has_value()) {
      row_term.filter = shared_->cache.Find(*term.filter, *snapshot, at.epoch());
    } else {
      row_term.numbers = shared_->numbers.Find(*snapshot, term.attribute);
    }
    if (row_term.filter == nullptr && row_term.numbers == nullptr) return nullptr;
  }
  return bound;
}

// The snapshot is later than the state, and so has every row of it, as long as it is held.
std::shared_ptr<const AttributeSnapshot> CollectionAttributes::ColumnsOf(
    const PinnedEpoch& /*held*/) const {
  return columns_.Snapshot();
}

absl::StatusOr<RowReader> CollectionAttributes::FindRows(const PinnedEpoch& held,
                                                         absl::Span<const uint32_t> ordinals,
                                                         const WantedAttributes& wanted) const {
  ABSL_RETURN_IF_ERROR(CheckDeclared("attributes", wanted, held.epoch()));
  return RowReader::Find(ColumnsOf(held), ordinals);
}

std::optional<ChosenRows> CollectionAttributes::FindKept(const Collection& collection,
                                                         const Filter& filter,
                                                         std::shared_ptr<const PinnedEpoch> at) {
  if (at == nullptr) at = collection.PinEpoch();
  if (!CheckDeclared(filter, at->epoch()).ok()) return std::nullopt;
  const auto rows = shared_->cache.Find(filter, *columns_.Snapshot(), at->epoch());
  if (rows == nullptr) return std::nullopt;
  return ChosenRows{.at = std::move(at), .rows = rows, .rows_count_max = rows->rows_count};
}

absl::Status CollectionAttributes::Tidy(Collection& collection, Drop drop,
                                        const std::function<bool()>& cancelled) {
  ABSL_RETURN_IF_ERROR(DropDead(collection, drop));
  ForgetSchemas(collection);
  while (!cancelled() && columns_.MergeStep()) NoteBytes();
  NoteBytes();
  const MutexLock look(look_mutex_);
  Release(collection);
  return absl::OkStatus();
}

void CollectionAttributes::ReleaseOrdinals(Collection& collection) {
  if (!look_mutex_.TryLock()) return;  // Tidy does it
  const MutexLock look(look_mutex_, std::adopt_lock);
  Release(collection);
}

void CollectionAttributes::Release(Collection& collection) {
  columns_.TakeFreed().ForEachRange([&](OrdinalRange range) {
    collection.ReleaseOrdinals(static_cast<uint32_t>(range.begin),
                               static_cast<int64_t>(range.end - range.begin));
  });
}

int64_t CollectionAttributes::DeadRowsMax(int64_t live, Drop drop) const {
  if (drop == Drop::kAll) return 0;
  const bool scarce = shared_->memory_bytes > shared_->memory_bytes_max / kScarceShare;
  return scarce ? live / kScarceLiveRowsADeadRow : std::max(kDeadRowsMin, live / 4);
}

// Drops rows that no state shows or will show. A state pinned later shows only rows of the states
// held now, rows of uploads between Add and Finalize, and rows that are not in the snapshot yet.
absl::Status CollectionAttributes::DropDead(const Collection& collection, Drop drop) {
  const MutexLock look(look_mutex_);
  std::shared_ptr<const AttributeSnapshot> snapshot;
  OrdinalSet adding;
  PinnedEpochs epochs;
  {
    const MutexLock lock(mutex_);
    const int64_t live_count = collection.PinEpoch()->rows_count();
    const int64_t dead = columns_.rows_count() - adding_.size() - live_count;
    if (dead <= DeadRowsMax(live_count, drop)) return absl::OkStatus();
    snapshot = columns_.Snapshot();
    adding = adding_;
    epochs = collection.ReachableEpochs();
  }
  OrdinalSet dead;
  for (const auto& chunk : snapshot->chunks) dead.UniteWith(chunk->rows());
  dead.Subtract(adding);
  for (const auto& epoch : epochs) {
    ABSL_ASSIGN_OR_RETURN(const RowFilter live, collection.LiveRows(epoch.get()));
    dead.Subtract(OrdinalSet::FromWords(0, live.chosen));
  }
  columns_.Drop(dead);
  return absl::OkStatus();
}

AttributeUpload::AttributeUpload(CollectionAttributes* to, AttributeLimit limit)
    : to_(to), limit_(limit), builder_(to->SchemaAt()) {}

AttributeUpload::~AttributeUpload() {
  if (added_) Finalize(false);
  to_->shared_->Release(bytes_noted_);
}

absl::Status AttributeUpload::Append(const AttributeBlock& block) {
  ABSL_RETURN_IF_ERROR(builder_.Append(block));
  if (schema().size() == 0) return absl::OkStatus();
  AttributeShared& shared = *to_->shared_;
  const int64_t grown = builder_.bytes() + builder_.built_bytes_max() - bytes_noted_;
  const int64_t used = shared.memory_bytes += grown;
  bytes_noted_ += grown;
  if (used <= shared.memory_bytes_max || limit_ == AttributeLimit::kNotes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("attributes: ", bytes_noted_, " bytes of host memory needed for the values, ",
                   std::max<int64_t>(0, shared.memory_bytes_max - (used - bytes_noted_)),
                   " bytes free of attribute_memory_bytes = ", shared.memory_bytes_max));
}

absl::Status AttributeUpload::AppendStored(int64_t rows_count, const BytesColumn* encoded) {
  BytesColumn none;
  if (encoded == nullptr) {
    for (int64_t row = 0; row < rows_count; ++row) none.Append("");
    encoded = &none;
  }
  ABSL_ASSIGN_OR_RETURN(const AttributeBlock block, DecodeRowAttributes(schema(), *encoded));
  return Append(block);
}

absl::Status AttributeUpload::Add(uint32_t first_ordinal) {
  CHECK(!added_);
  const uint64_t end = first_ordinal + static_cast<uint64_t>(builder_.rows_count());
  rows_ = OrdinalSet::FromRange({.begin = first_ordinal, .end = std::min(end, kOrdinalsEnd)});
  {
    const MutexLock lock(to_->mutex_);
    DCHECK_EQ(to_->adding_.IntersectionSize(rows_), 0);  // no two uploads have an ordinal
    to_->adding_.UniteWith(rows_);
    added_ = true;
  }
  ABSL_ASSIGN_OR_RETURN(auto chunks, builder_.Build(first_ordinal));
  return CatchOutOfMemory([&] { return to_->columns_.Add(std::move(chunks)); });
}

void AttributeUpload::Finalize(bool visible) noexcept {
  if (!added_) return;
  // The commit is already decided. If memory is exhausted, small chunks stay unmerged and invisible
  // rows stay until the next Tidy.
  const auto change = [&](auto columns_change) {
    CatchOutOfMemory([&] {
      columns_change();
      return absl::OkStatus();
    }).IgnoreError();
  };
  if (visible) change([&] { to_->columns_.MergeSmall(); });
  {
    // Another upload may take ordinals once they are released, and must not meet them in adding_.
    const MutexLock lock(to_->mutex_);
    if (!visible) change([&] { to_->columns_.Release(rows_); });
    to_->adding_.Subtract(rows_);
  }
  to_->NoteBytes();
  to_->shared_->Release(std::exchange(bytes_noted_, 0));
  added_ = false;
}

}  // namespace nearfield::server
