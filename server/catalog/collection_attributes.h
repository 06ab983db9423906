// The attributes of one collection's rows, from upload to filter.
#ifndef NEARFIELD_SERVER_CATALOG_COLLECTION_ATTRIBUTES_H_
#define NEARFIELD_SERVER_CATALOG_COLLECTION_ATTRIBUTES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/row_filter.h"
#include "server/catalog/attributes/attribute_block.h"
#include "server/catalog/attributes/chunk.h"
#include "server/catalog/attributes/columns.h"
#include "server/catalog/attributes/filter.h"
#include "server/catalog/attributes/filter_cache.h"
#include "server/catalog/attributes/ordinal_set.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// What all collections of a server share. Thread-safe.
struct AttributeShared {
  AttributeShared(int64_t memory_bytes_max_in, int64_t cache_bytes_max)
      : memory_bytes_max(memory_bytes_max_in), cache(cache_bytes_max) {}

  const int64_t memory_bytes_max;  // of host memory for the attributes of all rows
  std::atomic<int64_t> memory_bytes{0};
  FilterCache cache;
};

// The rows that pass a filter, and the state of the collection that was looked at.
struct ChosenRows {
  std::shared_ptr<const PinnedEpoch> at;
  std::shared_ptr<const RowFilter> rows;  // with others that `at` does not show
  int64_t rows_count_max = 0;             // those as well
};

// Whether the engine looks at these rows alone: where they are fewer than one in 32.
inline bool IsFewRows(const ChosenRows& chosen) {
  return chosen.rows_count_max * 32 <= chosen.at->rows_count();
}

class AttributeUpload;

// Thread-safe.
class CollectionAttributes {
 public:
  CollectionAttributes(AttributeSchema schema, std::shared_ptr<AttributeShared> shared);
  ~CollectionAttributes();

  const AttributeSchema& schema() const { return columns_.schema(); }
  // Bytes of host memory.
  int64_t bytes() const { return columns_.bytes(); }

  // The rows that pass at `at` (null: the current state of `collection`). The filter was validated
  // against schema(). Errors: Cancelled, InvalidArgument (ids of the other type).
  absl::StatusOr<ChosenRows> Choose(const Collection& collection, const Filter& filter,
                                    std::shared_ptr<const PinnedEpoch> at,
                                    const std::function<bool()>& cancelled);

  // Returns what Choose would, where the filter's answer is kept: in microseconds.
  std::optional<ChosenRows> FindKept(const Collection& collection, const Filter& filter,
                                     std::shared_ptr<const PinnedEpoch> at);

  // Merges what uploads left in small parts, and gives back the memory and the ordinals of rows
  // that no held state shows any more. In the background; `cancelled` is asked between steps.
  absl::Status Tidy(Collection& collection, const std::function<bool()>& cancelled);

  // Releases the ordinals of rows that are gone, so that an upload finds some: Tidy did not run
  // since, or the rows were of an upload that failed. Cost: a microsecond for each range of them.
  void ReleaseOrdinals(Collection& collection);

 private:
  friend class AttributeUpload;
  absl::Status DropDead(const Collection& collection);
  // Requires look_mutex_.
  void Release(Collection& collection);
  void NoteBytes();

  const std::shared_ptr<AttributeShared> shared_;
  AttributeColumns columns_;
  // Held while dead rows are looked for and dropped: no ordinal is released in that time, so that
  // none that was found dead names another row when it is dropped. Taken before mutex_.
  std::mutex look_mutex_;
  std::mutex mutex_;
  OrdinalSet adding_;  // rows of uploads between Add and Settle; guarded by mutex_
  std::mutex bytes_mutex_;
  int64_t bytes_noted_ = 0;  // in shared_->memory_bytes
};

// Whether attributes are refused where there is no memory left for more. Those that were stored
// once are not: their rows are served.
enum class AttributeLimit : uint8_t { kRefuses, kNotes };

// The attributes of the rows of one upload. Destroyed before Settle(true) it leaves nothing behind.
// Not thread-safe.
class AttributeUpload {
 public:
  // `to` outlives this.
  explicit AttributeUpload(CollectionAttributes* to,
                           AttributeLimit limit = AttributeLimit::kRefuses);
  ~AttributeUpload();
  AttributeUpload(const AttributeUpload&) = delete;
  AttributeUpload& operator=(const AttributeUpload&) = delete;

  // The next rows; columns are those of the schema. Errors: ResourceExhausted (says needed and free
  // bytes); the upload can then only be destroyed.
  absl::Status Append(const AttributeBlock& block);

  // The same of `rows_count` rows as the store keeps them (row_encoding.h; null: no row has any).
  // Errors: and DataLoss.
  absl::Status AppendStored(int64_t rows_count, const BytesColumn* encoded);
  // Appended and not added yet.
  int64_t rows_count() const { return builder_.rows_count(); }

  // All rows, numbered from `first_ordinal` on; filters find them from now on. Called before the
  // engine shows the rows. From here on the ordinals are released once the rows are gone, also
  // after an error. Errors: ResourceExhausted.
  absl::Status Add(uint32_t first_ordinal);
  // The engine shows the rows, or never will.
  void Settle(bool visible) noexcept;

 private:
  CollectionAttributes* const to_;
  const AttributeLimit limit_;
  AttributeChunkBuilder builder_;
  int64_t bytes_noted_ = 0;  // in memory_bytes, for the builder and for what it will build
  bool added_ = false;
  OrdinalSet rows_;  // what Add was called for
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_COLLECTION_ATTRIBUTES_H_
