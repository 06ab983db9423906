// The indexed attributes of neighboring rows.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_CHUNK_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_CHUNK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/catalog/attributes/attribute_block.h"
#include "server/catalog/attributes/attribute_index.h"
#include "server/catalog/attributes/ordinal_set.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// Immutable; shared by all who evaluate over it.
class AttributeChunk {
 public:
  // At most this many rows, so that what is built, merged and evaluated at once is bounded.
  static constexpr int64_t kRowsMax = 1 << 20;
  // Their ordinals span at most this, so that a bit for each is.
  static constexpr int64_t kSpanMax = 4 * kRowsMax;

  // The chunk of the rows that each part holds and `dead` does not; null where none is left. The
  // parts share no row, ascend by their first one, and hold at most kRowsMax rows that span at most
  // kSpanMax.
  static std::shared_ptr<const AttributeChunk> Merge(
      const AttributeSchema& schema, absl::Span<const std::shared_ptr<const AttributeChunk>> parts,
      const OrdinalSet& dead);

  const OrdinalSet& rows() const { return rows_; }
  int64_t rows_count() const { return rows_count_; }
  uint32_t first() const { return first_; }
  uint32_t last() const { return last_; }
  const AttributeIndex& index(int32_t attribute) const {
    return indexes_[static_cast<size_t>(attribute)];
  }
  int64_t bytes() const;

 private:
  friend class AttributeChunkBuilder;
  void SetRows(OrdinalSet rows);

  OrdinalSet rows_;  // never empty
  int64_t rows_count_ = 0;
  uint32_t first_ = 0;
  uint32_t last_ = 0;
  std::vector<AttributeIndex> indexes_;  // one an attribute of the schema
};

// Gathers the rows of one upload. Not thread-safe.
class AttributeChunkBuilder {
 public:
  // `schema` outlives the builder.
  explicit AttributeChunkBuilder(const AttributeSchema* schema) : schema_(schema) {}

  // The block's columns are those of the schema. Errors: ResourceExhausted (more than
  // 2^32 rows, no host memory); the builder can then only be destroyed.
  absl::Status Append(const AttributeBlock& block);
  int64_t rows_count() const { return rows_count_; }
  // Bytes of host memory the builder holds on to. What Build() returns takes about as much again.
  int64_t bytes() const;

  // The rows get the ordinals first_ordinal, first_ordinal + 1, ... in the order of Append. Leaves
  // the builder without rows. Errors: ResourceExhausted (ordinals beyond 2^32, no host memory).
  absl::StatusOr<std::vector<std::shared_ptr<const AttributeChunk>>> Build(uint32_t first_ordinal);

 private:
  // The rows of a chunk to be, by attribute; ordinals count from the first row of the upload.
  struct Part {
    int64_t rows_count = 0;
    std::vector<AttributeEntries> entries;
  };
  std::vector<std::shared_ptr<const AttributeChunk>> BuildParts(uint32_t first_ordinal);
  void AppendRow(const AttributeBlock& block, int64_t row, BlockCursor* cursor);

  const AttributeSchema* const schema_;
  int64_t rows_count_ = 0;
  std::vector<Part> parts_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_CHUNK_H_
