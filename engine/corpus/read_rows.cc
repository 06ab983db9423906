// Corpus: reading rows, by id and in the order of the ids.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/ordered_rows.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

// Copies the ids and the requested parts of rows.
absl::StatusOr<FetchResult> CopyRows(const CorpusSnapshot& snapshot, absl::Span<const RowRef> rows,
                                     const CollectionSpec& spec, const RowParts& parts) {
  FetchResult result;
  result.epoch = snapshot.epoch;
  result.ids = IdColumn(spec.id_type);
  std::vector<RowCopy> copies;
  for (const RowRef& row : rows) {
    const GenerationState& state = snapshot.generations[row.generation];
    copies.push_back({.row = row});
    result.ids.AppendFrom(state.generation->ids, row.slot);
    if (parts.payloads) result.payloads.Append(state.payload(row.slot));
    if (parts.ordinals) result.ordinals.push_back(state.ordinal(row.slot));
  }
  if (parts.vectors) {
    const auto row_size =
        static_cast<size_t>(spec.dim) * static_cast<size_t>(BytesPerElement(spec.row_type));
    result.rows.resize(copies.size() * row_size);
    for (size_t i = 0; i < copies.size(); ++i) copies[i].to = result.rows.data() + i * row_size;
    ABSL_RETURN_IF_ERROR(ReadRows(snapshot, copies, static_cast<int64_t>(row_size)));
  }
  return result;
}

// Returns the bytes of a row in a FetchResult.
int64_t ResultBytes(const CorpusSnapshot& snapshot, const RowRef& row, int64_t row_bytes,
                    const RowParts& parts) {
  constexpr int64_t kLengthBytes = sizeof(int64_t);  // of a text id or of a payload
  const IdColumn& ids = snapshot.generations[row.generation].generation->ids;
  int64_t bytes = PartBytes(snapshot, row, row_bytes, parts) + kLengthBytes;
  if (ids.type() == IdType::kString) bytes += static_cast<int64_t>(ids.string(row.slot).size());
  if (parts.payloads) bytes += kLengthBytes;
  if (parts.ordinals) bytes += static_cast<int64_t>(sizeof(uint32_t));
  return bytes;
}

absl::Status CheckRead(const OrderedRead& read, IdType type) {
  ABSL_RETURN_IF_ERROR(CheckRange("rows_max", read.rows_max, 1, kRowsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("rows_examined_max", read.rows_examined_max, 1, kRowsMax));
  if (!read.after.has_value()) return absl::OkStatus();
  const IdType given =
      std::holds_alternative<uint64_t>(*read.after) ? IdType::kUint64 : IdType::kString;
  return CheckIdType(IdColumn(given), type);
}

}  // namespace

absl::StatusOr<FetchResult> Corpus::Fetch(const PinnedEpoch* at, const IdColumn& ids,
                                          RowParts parts) const {
  return CatchOutOfMemory([&] { return FetchRows(at, ids, parts); });
}

absl::StatusOr<FetchResult> Corpus::FetchRows(const PinnedEpoch* at, const IdColumn& ids,
                                              const RowParts& parts) const {
  ABSL_RETURN_IF_ERROR(device_->Check());
  ABSL_RETURN_IF_ERROR(CheckIdType(ids));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(at));
  std::vector<RowRef> rows;
  for (const std::optional<RowRef>& row : Locate(*snapshot, ids)) {
    if (row) rows.push_back(*row);
  }
  return CopyChecked(*snapshot, rows, parts);
}

absl::StatusOr<FetchResult> Corpus::CopyChecked(const CorpusSnapshot& snapshot,
                                                absl::Span<const RowRef> rows,
                                                const RowParts& parts) const {
  int64_t bytes = 0;
  for (const RowRef& row : rows) bytes += PartBytes(snapshot, row, row_bytes(), parts);
  ABSL_RETURN_IF_ERROR(CheckPartBytes(bytes, parts));
  return CopyRows(snapshot, rows, spec_, parts);
}

absl::StatusOr<FetchResult> Corpus::FetchChosen(const PinnedEpoch* at, const RowFilter& rows,
                                                RowParts parts) const {
  return CatchOutOfMemory([&]() -> absl::StatusOr<FetchResult> {
    ABSL_RETURN_IF_ERROR(device_->Check());
    ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(at));
    std::vector<RowRef> chosen;
    for (uint32_t g = 0; g < snapshot->generations.size(); ++g) {
      for (const uint32_t slot : ChosenSlots(snapshot->generations[g], rows)) {
        chosen.push_back({.generation = g, .slot = slot});
      }
    }
    return CopyChecked(*snapshot, chosen, parts);
  });
}

absl::StatusOr<OrderedRows> Corpus::ReadInOrder(const OrderedRead& read) const {
  return CatchOutOfMemory([&] { return ReadRowsInOrder(read); });
}

absl::StatusOr<OrderedRows> Corpus::ReadRowsInOrder(const OrderedRead& read) const {
  ABSL_RETURN_IF_ERROR(device_->Check());
  ABSL_RETURN_IF_ERROR(CheckRead(read, spec_.id_type));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(read.at));
  IdColumn after(spec_.id_type);
  if (read.after.has_value()) after.Append(*read.after);
  IdOrderMerge merge(*snapshot, read.after.has_value() ? &after : nullptr);
  std::vector<RowRef> rows;
  std::optional<RowRef> last;
  int64_t bytes = 0;
  int64_t examined = 0;
  while (!merge.ended() && static_cast<int64_t>(rows.size()) < read.rows_max) {
    const RowRef row = merge.row();
    // A read does not end between the rows of one id, because the next one starts after the id.
    if (examined++ >= read.rows_examined_max && !merge.HasIdOf(*last)) break;
    const GenerationState& state = snapshot->generations[row.generation];
    const bool wanted = !IsDeleted(state.tombstones.get(), row.slot) &&
                        (read.filter == nullptr || read.filter->Chooses(state.ordinal(row.slot)));
    if (wanted) {
      const int64_t with_row = bytes + ResultBytes(*snapshot, row, row_bytes(), read.parts);
      if (read.parts.bytes_max > 0 && with_row > read.parts.bytes_max) {
        if (rows.empty()) {
          return absl::ResourceExhaustedError(
              absl::StrCat("row ", IdText(state.generation->ids.at(row.slot)), ": takes ", with_row,
                           " bytes, the limit is ", read.parts.bytes_max));
        }
        last = rows.back();  // the row before may be a deleted one with the id of this row
        break;
      }
      bytes = with_row;
      rows.push_back(row);
    }
    last = row;
    merge.Next();
  }
  OrderedRows result;
  result.ended = merge.ended();
  if (last.has_value()) {
    result.last = snapshot->generations[last->generation].generation->ids.at(last->slot);
  }
  ABSL_ASSIGN_OR_RETURN(result.found, CopyRows(*snapshot, rows, spec_, read.parts));
  return result;
}

}  // namespace nearfield::corpus
