// RowReader: reads the attributes of rows by ordinal.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/columns.h"

namespace nearfield::server {

// Attributes that a request wants, by their numbers in the schema; ascending.
using WantedAttributes = std::vector<int32_t>;

// Rows of a snapshot, in any order. Holds the snapshot. Immutable.
class RowReader {
 public:
  // Finds the rows. Cost: less than a microsecond for each row. Errors: Internal (the snapshot does
  // not have a row).
  static absl::StatusOr<RowReader> Find(std::shared_ptr<const AttributeSnapshot> snapshot,
                                        absl::Span<const uint32_t> ordinals);

  const AttributeSchema& schema() const { return *snapshot_->schema; }
  int64_t rows_count() const { return static_cast<int64_t>(rows_.size()); }

  // Returns the bytes that these attributes of a row take in a message. Requires: 0 <= row <
  // rows_count().
  MessageBytes BytesOf(int64_t row, const WantedAttributes& wanted) const;

  // Returns an attribute of the first `rows_count` rows: values to the bit, and lists in the order
  // of the upload.
  AttributeColumn Read(int32_t attribute, int64_t rows_count) const;

 private:
  struct Row {
    const AttributeChunk* chunk = nullptr;
    uint32_t ordinal = 0;
  };

  explicit RowReader(std::shared_ptr<const AttributeSnapshot> snapshot)
      : snapshot_(std::move(snapshot)) {}

  std::shared_ptr<const AttributeSnapshot> snapshot_;
  std::vector<Row> rows_;
};

}  // namespace nearfield::server
