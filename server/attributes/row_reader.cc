#include "server/attributes/row_reader.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace nearfield::server {
namespace {

// Returns the chunk that has the row; null if none has it. The ordinals of chunks may overlap.
const AttributeChunk* ChunkOf(const AttributeChunks& chunks, uint32_t ordinal) {
  auto next =
      std::upper_bound(chunks.begin(), chunks.end(), ordinal,
                       [](uint32_t wanted, const auto& chunk) { return wanted < chunk->first(); });
  while (next != chunks.begin()) {
    const AttributeChunk& chunk = **--next;
    if (int64_t{ordinal} - chunk.first() >= AttributeChunk::kSpanMax) break;
    if (ordinal <= chunk.last() && chunk.rows().Contains(ordinal)) return &chunk;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<RowReader> RowReader::Find(std::shared_ptr<const AttributeSnapshot> snapshot,
                                          absl::Span<const uint32_t> ordinals) {
  RowReader reader(std::move(snapshot));
  reader.rows_.reserve(ordinals.size());
  for (const uint32_t ordinal : ordinals) {
    const AttributeChunk* const chunk = ChunkOf(reader.snapshot_->chunks, ordinal);
    if (chunk == nullptr) {
      return absl::InternalError(
          absl::StrCat("the row with ordinal ", ordinal, " has no place in the attributes"));
    }
    reader.rows_.push_back({.chunk = chunk, .ordinal = ordinal});
  }
  return reader;
}

MessageBytes RowReader::BytesOf(int64_t row, const WantedAttributes& wanted) const {
  const Row& at = rows_[static_cast<size_t>(row)];
  MessageBytes bytes;
  for (const int32_t attribute : wanted) {
    bytes += at.chunk->index(attribute).BytesOfRow(at.ordinal, schema().at(attribute).type);
  }
  return bytes;
}

AttributeColumn RowReader::Read(int32_t attribute, int64_t rows_count) const {
  DCHECK_LE(rows_count, this->rows_count());
  AttributeColumn column = EmptyColumn(schema().at(attribute));
  for (const Row& row : absl::MakeConstSpan(rows_).first(static_cast<size_t>(rows_count))) {
    row.chunk->index(attribute).AppendRow(row.ordinal, &column);
  }
  return column;
}

}  // namespace nearfield::server
