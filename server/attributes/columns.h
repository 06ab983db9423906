// AttributeColumns: the attributes of all rows of a collection, by ordinal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "server/attributes/chunk.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// The columns at one moment. Immutable; an evaluation holds it until it ends.
struct AttributeSnapshot {
  std::shared_ptr<const AttributeSchema> schema;
  AttributeChunks chunks;  // ascending ordinals
  // Identifies the rows and their values. No two states of any columns in this process have the
  // same version. A merge changes nothing except dropped rows, so it keeps the version.
  uint64_t version = 0;
};

// Rows must be added before the engine shows them. Rows that the engine does not show, or no longer
// shows, do no harm: the engine excludes them from every answer. A row never changes: an update
// adds another one, with another ordinal. An ordinal may name another row after TakeFreed has
// returned it. Thread-safe.
class AttributeColumns {
 public:
  explicit AttributeColumns(AttributeSchema schema);

  std::shared_ptr<const AttributeSnapshot> Snapshot() const;

  // Replaces the schema by one that adds or drops attributes.
  void SetSchema(std::shared_ptr<const AttributeSchema> schema);
  // Releases the memory of dropped attributes that no reader names any more.
  void Forget(const std::vector<int32_t>& attributes);

  // Adds the result of AttributeChunkBuilder::Build atomically, in a new version.
  // Errors: InvalidArgument (an ordinal is already present).
  absl::Status Add(AttributeChunks chunks);

  // Merges small neighboring chunks into chunks of up to kInlineRowsMax rows. Call it once the
  // added rows are permanent. MergeStep() merges larger ones.
  void MergeSmall();

  // Drops rows that no epoch will show again: deleted rows that no reader sees any more, and rows
  // of an abandoned upload. A chunk without other rows is removed, in a new version. Other chunks
  // lose the rows when they are merged. Ignores ordinals that are not present.
  void Drop(const OrdinalSet& dead);

  // Drops the rows of a failed upload. The ordinals of rows that were never added are free
  // immediately.
  void Release(const OrdinalSet& rows);

  // Returns, once each, the ordinals of dropped rows that are in no chunk any more. New rows may be
  // added with them.
  OrdinalSet TakeFreed();

  // Merges small neighbors once, or rewrites a chunk most of whose rows are dropped. Returns false
  // if there is nothing to do. Cost: the work for up to kRowsMax rows; other calls continue
  // meanwhile. After an append, call it in the background until it returns false.
  bool MergeStep();

  // Returns the number of rows that are present and not dropped.
  int64_t rows_count() const;
  // Returns the bytes of host memory, without memory that only snapshots still hold, and without
  // the ordinals that wait for TakeFreed.
  int64_t bytes() const;

  static constexpr int64_t kInlineRowsMax = 8192;

 private:
  // Drop(), without the lock.
  void DropHere(const OrdinalSet& dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MergeOnce(int64_t rows_max) ABSL_EXCLUSIVE_LOCKS_REQUIRED(merge_mutex_);
  // Makes these the chunks, with the schema of the current state.
  void Install(AttributeChunks chunks, uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex merge_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // serializes merges
  mutable Mutex mutex_;
  std::shared_ptr<const AttributeSnapshot> current_ ABSL_GUARDED_BY(mutex_);
  OrdinalSet dead_ ABSL_GUARDED_BY(mutex_);   // dropped rows that are still in a chunk
  OrdinalSet freed_ ABSL_GUARDED_BY(mutex_);  // dropped rows that are in no chunk, until TakeFreed
};

}  // namespace nearfield::server
