// CollectionAttributes: the attributes of one collection's rows, from upload to filter.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/row_filter.h"
#include "nearfield/engine/row_terms.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/chunk.h"
#include "server/attributes/columns.h"
#include "server/attributes/filter.h"
#include "server/attributes/filter_cache.h"
#include "server/attributes/number_columns.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/row_reader.h"
#include "server/attributes/schema.h"
#include "server/attributes/term_list.h"

namespace nearfield::server {

// State shared by all collections of a server. Thread-safe.
struct AttributeShared {
  struct Limits {
    int64_t memory_bytes = INT64_MAX;  // host memory for the attributes of all rows
    int64_t cache_bytes = 0;           // of the results of filters
    int64_t numbers_bytes = 0;         // of the numbers that row terms read
  };
  explicit AttributeShared(const Limits& limits)
      : memory_bytes_max(limits.memory_bytes),
        cache(limits.cache_bytes),
        numbers(limits.numbers_bytes) {}
  // Requires: all bytes were released.
  ~AttributeShared();

  void Release(int64_t bytes);

  const int64_t memory_bytes_max;
  std::atomic<int64_t> memory_bytes{0};
  FilterCache cache;
  NumberColumns numbers;
};

// The rows that pass a filter, and the state of the collection that was evaluated.
struct ChosenRows {
  std::shared_ptr<const PinnedEpoch> at;
  std::shared_ptr<const RowFilter> rows;  // may include rows that `at` does not show
  int64_t rows_count_max = 0;             // number of set bits in `rows`
};

// Returns true if the engine should scan only these rows: they are at most one in 32.
inline bool IsFewRows(const ChosenRows& chosen) {
  return chosen.rows_count_max * 32 <= chosen.at->rows_count();
}

class AttributeUpload;

// Thread-safe.
class CollectionAttributes {
 public:
  CollectionAttributes(AttributeSchema schema, std::shared_ptr<AttributeShared> shared);
  ~CollectionAttributes();

  // Returns the attributes that the collection declares at `epoch` (absent: now).
  std::shared_ptr<const AttributeSchema> SchemaAt(std::optional<uint64_t> epoch = {}) const;
  // Schemas by the first epoch that has them.
  using Schemas = std::map<uint64_t, std::shared_ptr<const AttributeSchema>>;
  // Prepares `schema` as that of `epoch` and later epochs. If the epoch is certain, pass the result
  // to Declare, before the engine shows it; else nothing has changed.
  Schemas PrepareSchema(uint64_t epoch, std::shared_ptr<const AttributeSchema> schema);
  void Declare(Schemas prepared) noexcept;
  // Returns the bytes of host memory.
  int64_t bytes() const { return columns_.bytes(); }

  // Returns the rows that pass at `at` (null: the current state of `collection`). Requires: the
  // filter was validated against a schema of the collection.
  // Errors: Cancelled, InvalidArgument (ids of the other type; an attribute that is not declared at
  // `at`: it was dropped after the validation).
  absl::StatusOr<ChosenRows> Choose(const Collection& collection, const Filter& filter,
                                    std::shared_ptr<const PinnedEpoch> at,
                                    const std::function<bool()>& cancelled);

  // Returns the result of Choose if it is cached, else nullopt. Takes microseconds.
  std::optional<ChosenRows> FindKept(const Collection& collection, const Filter& filter,
                                     std::shared_ptr<const PinnedEpoch> at);

  // Returns the terms of a search at `at`, with the numbers and the rows that they read. Requires:
  // the terms were checked against a schema of the collection. Errors: Cancelled, InvalidArgument
  // (as Choose), ResourceExhausted (no memory for the numbers).
  absl::StatusOr<std::shared_ptr<const RowTerms>> Bind(const Collection& collection,
                                                       const TermList& terms,
                                                       const std::shared_ptr<const PinnedEpoch>& at,
                                                       const std::function<bool()>& cancelled);

  // Returns the result of Bind if all that the terms read is cached, else null. Takes microseconds.
  std::shared_ptr<const RowTerms> FindKept(const TermList& terms, const PinnedEpoch& at);

  // Returns the columns at a moment when they have every row that the state `held` shows. Requires:
  // the caller holds the state during the call; afterwards the snapshot does not need it.
  std::shared_ptr<const AttributeSnapshot> ColumnsOf(const PinnedEpoch& held) const;

  // Finds the rows with these ordinals, which the state `held` shows, to read the attributes
  // `wanted`. Requires: the caller holds the state during the call; afterwards the reader does not
  // need it. Errors: Internal (a row is missing), InvalidArgument (as Choose).
  absl::StatusOr<RowReader> FindRows(const PinnedEpoch& held, absl::Span<const uint32_t> ordinals,
                                     const WantedAttributes& wanted) const;

  // Which rows Tidy drops, of those that no held state shows any more: once there are many, or
  // several while memory is scarce; or all of them.
  enum class Drop : uint8_t { kMany, kAll };
  // Merges the small chunks of uploads, and releases the memory and the ordinals of dead rows. Runs
  // in the background; polls `cancelled` between steps.
  absl::Status Tidy(Collection& collection, Drop drop, const std::function<bool()>& cancelled);

  // Releases the ordinals of rows that are gone, so that an upload can take them: those of failed
  // uploads, and those that were freed since the last Tidy. Cost: one microsecond for each range.
  void ReleaseOrdinals(Collection& collection);

 private:
  friend class AttributeUpload;
  // Check that the attributes are declared at `epoch`. Errors: InvalidArgument.
  absl::Status CheckDeclared(const Filter& filter, uint64_t epoch) const;
  absl::Status CheckDeclared(const TermList& terms, uint64_t epoch) const;
  absl::Status CheckDeclared(const char* field, absl::Span<const int32_t> attributes,
                             uint64_t epoch) const;
  // Evaluates a filter over the rows of `at`.
  absl::StatusOr<std::shared_ptr<const FilterRows>> Evaluate(
      const Collection& collection, const Filter& filter, const AttributeSnapshot& snapshot,
      const PinnedEpoch& at, const std::function<bool()>& cancelled);
  absl::Status DropDead(const Collection& collection, Drop drop);
  // Returns the number of dead rows that stay. `live`: rows of the collection.
  int64_t DeadRowsMax(int64_t live, Drop drop) const;
  // Forgets the schemas of epochs that no held state has, and attributes that only they declare.
  void ForgetSchemas(const Collection& collection);
  void Release(Collection& collection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void NoteBytes();

  const std::shared_ptr<AttributeShared> shared_;
  AttributeColumns columns_;
  // Held while dead rows are searched for and dropped. No ordinal is released in that time, so no
  // ordinal that was found dead names another row when it is dropped.
  Mutex look_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Mutex mutex_;
  OrdinalSet adding_ ABSL_GUARDED_BY(mutex_);  // rows of uploads between Add and Finalize
  mutable Mutex schemas_mutex_;
  // The first one is that of all epochs before the second.
  Schemas schemas_ ABSL_GUARDED_BY(schemas_mutex_);
  Mutex bytes_mutex_;
  int64_t bytes_noted_ ABSL_GUARDED_BY(bytes_mutex_) = 0;  // part of shared_->memory_bytes
};

// Decides what happens when attribute memory is exhausted. kRefuses rejects new attributes. kNotes
// only records the bytes: attributes that were stored are always loaded.
enum class AttributeLimit : uint8_t { kRefuses, kNotes };

// The attributes of the rows of one upload. If it is destroyed before Finalize(true), its rows are
// removed. Not thread-safe.
class AttributeUpload {
 public:
  // `to` outlives this object.
  explicit AttributeUpload(CollectionAttributes* to,
                           AttributeLimit limit = AttributeLimit::kRefuses);
  ~AttributeUpload();
  AttributeUpload(const AttributeUpload&) = delete;
  AttributeUpload& operator=(const AttributeUpload&) = delete;

  // Appends rows. Requires: the columns are those of schema(), the collection's at the begin.
  // Errors: ResourceExhausted (reports needed and free bytes). After an error the upload can only
  // be destroyed.
  absl::Status Append(const AttributeBlock& block);

  // As Append, for `rows_count` rows in the store's encoding (row_encoding.h; null: no row has
  // any). Errors: as Append; DataLoss.
  absl::Status AppendStored(int64_t rows_count, const BytesColumn* encoded);
  // Returns the bytes of host memory for the rows so far; 0 after Finalize.
  int64_t bytes() const { return bytes_noted_; }
  const AttributeSchema& schema() const { return builder_.schema(); }
  // Returns the number of rows appended but not added yet.
  int64_t rows_count() const { return builder_.rows_count(); }

  // Adds all rows, with consecutive ordinals that begin at `first_ordinal`; filters then find them.
  // Call it before the engine shows the rows. After this call, even if it failed, the ordinals are
  // released once the rows are gone. Errors: ResourceExhausted.
  absl::Status Add(uint32_t first_ordinal);
  // Ends the upload: `visible` if the engine shows the rows, else it never will.
  void Finalize(bool visible) noexcept;

 private:
  CollectionAttributes* const to_;
  const AttributeLimit limit_;
  AttributeChunkBuilder builder_;
  int64_t bytes_noted_ = 0;  // bytes of the builder and of its future result, part of memory_bytes
  bool added_ = false;
  OrdinalSet rows_;  // the ordinals of the last Add
};

}  // namespace nearfield::server
