// AttributeChunk: the indexed attributes of neighboring rows.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/attribute_index.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// Immutable; shared by all evaluations over it.
class AttributeChunk {
 public:
  // Maximum number of rows. It bounds the work of building, merging and evaluating a chunk.
  static constexpr int64_t kRowsMax = 1 << 20;
  // Maximum span of the ordinals. It bounds the size of a bitmap with one bit for each ordinal.
  static constexpr int64_t kSpanMax = 4 * kRowsMax;

  // Returns the chunk of the rows that are in `parts` and not in `dead`; null if no row is left.
  // Requires: the parts have no row in common, ascend by their first row, and together hold at most
  // kRowsMax rows that span at most kSpanMax.
  static std::shared_ptr<const AttributeChunk> Merge(
      const AttributeSchema& schema, absl::Span<const std::shared_ptr<const AttributeChunk>> parts,
      const OrdinalSet& dead);

  const OrdinalSet& rows() const { return rows_; }
  int64_t rows_count() const { return rows_count_; }
  uint32_t first() const { return first_; }
  uint32_t last() const { return last_; }
  // Returns an index without rows for an attribute that was declared after the chunk was built.
  const AttributeIndex& index(int32_t attribute) const;
  // Returns the chunk without the indexes of these attributes; null if it has none of them.
  std::shared_ptr<const AttributeChunk> Without(const std::vector<int32_t>& attributes) const;
  int64_t bytes() const;

 private:
  friend class AttributeChunkBuilder;
  void SetRows(OrdinalSet rows);

  OrdinalSet rows_;  // never empty
  int64_t rows_count_ = 0;
  uint32_t first_ = 0;
  uint32_t last_ = 0;
  // One for each attribute of the schema at that time; null: no row has a value.
  std::vector<std::shared_ptr<const AttributeIndex>> indexes_;
};

using AttributeChunks = std::vector<std::shared_ptr<const AttributeChunk>>;

// Collects the rows of one upload. Not thread-safe.
class AttributeChunkBuilder {
 public:
  explicit AttributeChunkBuilder(std::shared_ptr<const AttributeSchema> schema)
      : schema_(std::move(schema)) {}
  const AttributeSchema& schema() const { return *schema_; }

  // Requires: the block's columns are those of the schema.
  // Errors: ResourceExhausted (more than 2^32 rows, no host memory). After an error the builder can
  // only be destroyed.
  absl::Status Append(const AttributeBlock& block);
  int64_t rows_count() const { return rows_count_; }
  // Returns the bytes of host memory that the builder holds.
  int64_t bytes() const;
  // Returns an upper limit of the bytes of host memory that the result of Build() holds.
  int64_t built_bytes_max() const;

  // Returns the chunks of the rows. They get the ordinals first_ordinal, first_ordinal + 1, ... in
  // the order of Append. The builder has no rows afterwards.
  // Errors: ResourceExhausted (ordinals beyond 2^32, no host memory).
  absl::StatusOr<AttributeChunks> Build(uint32_t first_ordinal);

 private:
  // The rows of a future chunk, by attribute. Ordinals start at 0 for the first row of the upload.
  struct Part {
    int64_t rows_count = 0;
    std::vector<AttributeEntries> entries;
  };
  AttributeChunks BuildParts(uint32_t first_ordinal);
  void AppendRow(const AttributeBlock& block, int64_t row, BlockCursor* cursor);

  const std::shared_ptr<const AttributeSchema> schema_;
  int64_t rows_count_ = 0;
  std::vector<Part> parts_;
};

}  // namespace nearfield::server
