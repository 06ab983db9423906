// The attributes of all rows of a collection, by ordinal.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_COLUMNS_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/catalog/attributes/chunk.h"
#include "server/catalog/attributes/ordinal_set.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// The columns at one moment. Immutable; held for as long as an evaluation takes.
struct AttributeSnapshot {
  std::shared_ptr<const AttributeSchema> schema;
  std::vector<std::shared_ptr<const AttributeChunk>> chunks;  // ascending ordinals
  // Names the rows and their values: never the same for two states of any columns of this process.
  // Merging chunks changes neither (but for dropped rows), so it keeps the version.
  uint64_t version = 0;
};

// Rows must be here before the engine shows them; rows that it does not show, or no longer shows,
// do no harm, as it leaves them out of every answer. A row never changes; its ordinal may name
// another row once TakeFreed returned it. Thread-safe.
class AttributeColumns {
 public:
  explicit AttributeColumns(AttributeSchema schema);

  const AttributeSchema& schema() const { return *schema_; }
  std::shared_ptr<const AttributeSnapshot> Snapshot() const;

  // Adds what AttributeChunkBuilder::Build returned: all of it at once, in a new version.
  // Errors: InvalidArgument where an ordinal is there already.
  absl::Status Add(std::vector<std::shared_ptr<const AttributeChunk>> chunks);

  // Merges neighboring small chunks, up to kInlineRowsMax rows, once what was added is to stay;
  // MergeStep() does the rest.
  void MergeSmall();

  // Rows that no epoch will show again: deleted ones that nobody reads any more, those of an upload
  // that was given up. A chunk that has no others is dropped, in a new version; others lose them
  // when they are merged. Ordinals that are not here are ignored.
  void Drop(const OrdinalSet& dead);

  // Drops the rows of an upload that failed. Those that were never added are free at once.
  void GiveUp(const OrdinalSet& rows);

  // Returns, once each, the ordinals of dropped rows that are in no chunk any more: rows may be
  // added with them anew.
  OrdinalSet TakeFreed();

  // Does one merge of small neighbors, or of what is left of a chunk most of whose rows are
  // dropped; false where nothing is to do. Costs up to kRowsMax rows of work, beside which
  // everything else goes on. Whoever appends calls it until it says false, in the background.
  bool MergeStep();

  // Rows that are here and not dropped.
  int64_t rows_count() const;
  // Bytes of host memory, without what only snapshots still hold, and without the ordinals that
  // wait for TakeFreed.
  int64_t bytes() const;

  static constexpr int64_t kInlineRowsMax = 8192;

 private:
  using Chunks = std::vector<std::shared_ptr<const AttributeChunk>>;

  // Drop. Requires mutex_.
  void DropHere(const OrdinalSet& dead);
  // Requires merge_mutex_.
  bool MergeOnce(int64_t rows_max);
  // Requires mutex_.
  void Install(Chunks chunks, uint64_t version);

  const std::shared_ptr<const AttributeSchema> schema_;
  std::mutex merge_mutex_;    // one merge at a time
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const AttributeSnapshot> current_;
  OrdinalSet dead_;   // dropped rows that are still in a chunk
  OrdinalSet freed_;  // dropped rows that are in none, until TakeFreed
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_COLUMNS_H_
