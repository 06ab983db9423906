// Collection: the corpus of one schema, with its uploads and deletions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/row_filter.h"
#include "nearfield/engine/types.h"

namespace nearfield {

struct CollectionSpec {
  int32_t dim = 0;  // 1 .. kDimMax
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  IdType id_type = IdType::kUint64;
  ScanChoice scan = ScanChoice::kAuto;
  RowPlacement rows = RowPlacement::kDevice;
  // How many devices share the rows of each commit, if the engine has several: the ones with the
  // most free memory, and others if their memory does not suffice; more than there are means all.
  // 0: as EngineOptions::spread says.
  int32_t devices = 0;
  // The name of the model that makes its vectors, for clients; the engine does not read it.
  std::string embedding_model;
};

// The effect of an upload on ids that are already in the collection.
enum class UploadMode : uint8_t {
  kInsert = 1,   // refused: AlreadyExists
  kUpsert = 2,   // the row is replaced; if an id occurs several times, the last one wins
  kReplace = 3,  // the upload becomes the whole collection
};

// Limits of an upload. They are reserved in full when it begins; the unused part is released when
// it ends.
struct UploadReservation {
  int64_t rows_max = 0;           // 1 .. kRowsMax
  int64_t payload_bytes_max = 0;  // >= 0
  UploadMode mode = UploadMode::kInsert;
  // false: host memory of string ids and payloads is reserved as they arrive, not for their maximum
  // size. Append can then return ResourceExhausted.
  bool values_reserved = true;
  // true: a row of zeros, which has no cosine, is an InvalidArgument of Append if the metric is
  // cosine. Else it is stored, and scores -inf.
  bool zero_rows_refused = false;
};

class PinnedEpoch;

// A change that is about to become visible.
struct PendingChange {
  uint64_t epoch = 0;      // the first epoch that shows it
  int64_t rows_count = 0;  // rows it adds
  // Of the upload's rows in upload order, or of the updated rows in the order of their ids: see
  // row_filter.h.
  uint32_t first_ordinal = 0;
  // Rows of the upload that a later row of the same id replaces, by position in the upload,
  // ascending.
  absl::Span<const uint32_t> rows_superseded;
  // Ids of the rows that are deleted or replaced one by one. Borrowed for the call; never null.
  const IdColumn* ids_removed = nullptr;
  bool removes_all = false;  // every earlier row is removed
};

// Called once, after all checks and with all memory reserved, while other changes of the collection
// wait. If it returns an error, nothing changes, and the caller of the change gets that error. If
// it returns OK, the change becomes visible in any case. Durable storage writes its record here.
// Not called if nothing changes. May be empty.
using CommitHook = std::function<absl::Status(const PendingChange&)>;

// Rows of one upload block, borrowed for the call.
struct UploadBlock {
  const IdColumn* ids = nullptr;  // one id per row
  // [ids->size(), dim] row-major, little-endian, in the collection's row type; finite.
  absl::Span<const uint8_t> rows;
  const BytesColumn* payloads = nullptr;  // one value per row, or null: every payload is empty
};

struct CommitResult {
  uint64_t epoch = 0;         // the first epoch that shows the rows
  int64_t rows_count = 0;     // rows this upload added
  int64_t rows_replaced = 0;  // rows of earlier epochs that were replaced
};

// One upload: Append any number of times, then Commit. If it is destroyed before Commit, it has no
// effect. Thread safety: not thread-safe. Different uploads may run concurrently, and searches
// continue.
class Upload {
 public:
  virtual ~Upload() = default;

  // Errors: InvalidArgument (id type, byte count, a non-finite value: names the row),
  // ResourceExhausted (more rows or payload bytes than reserved), Unavailable (device lost). After
  // an error the upload can only be destroyed.
  virtual absl::Status Append(const UploadBlock& block) = 0;

  // Returns the ordinal of the first row; the others follow in upload order. Call it after the last
  // Append, which fails afterwards. Data indexed by ordinal can then be prepared before Commit,
  // while other changes continue. If the upload does not commit, the caller must release the
  // ordinals (Collection::ReleaseOrdinals). Requires: at least one row. Errors: ResourceExhausted
  // (no free range of EngineOptions::ordinals_max is long enough).
  virtual absl::StatusOr<uint32_t> TakeOrdinals() = 0;

  // Makes all rows visible atomically, as epoch + 1. An upload without rows commits nothing and
  // returns the current epoch; with kReplace it empties the collection. Errors: AlreadyExists
  // (kInsert: an id twice in the upload, or already in the collection; kReplace: an id twice; names
  // it); ResourceExhausted (the corpus has kGenerationsMax generations and no memory to merge them;
  // kUpsert: no device memory for one bit per row of the generations whose rows are replaced);
  // Unavailable (device lost); the error of the hook.
  virtual absl::StatusOr<CommitResult> Commit(const CommitHook& before_visible) = 0;
  absl::StatusOr<CommitResult> Commit() { return Commit(nullptr); }
};

struct DeleteResult {
  uint64_t epoch = 0;        // the first epoch without the rows
  int64_t rows_deleted = 0;  // ids that named a row; others are ignored
};

// The changes of an update.
struct RowChanges {
  IdColumn ids;  // of live rows of the state before, each once
  // New payloads: null where the payload stays. One for each id, or none if all stay. Borrowed.
  std::vector<const std::string*> payloads;
  int64_t epochs = 0;  // by which the epoch grows; 0: nothing changes, and there are no ids
};
// Returns the changes to make, given the state before.
using ChooseChanges =
    std::function<absl::StatusOr<RowChanges>(const std::shared_ptr<const PinnedEpoch>& before)>;

struct UpdateResult {
  uint64_t epoch = 0;  // the first epoch that shows the changes
  int64_t rows_updated = 0;
};

// Rows found by id, in the order of the request; ids that name no row are omitted.
struct FetchResult {
  uint64_t epoch = 0;
  IdColumn ids;
  std::vector<uint8_t> rows;  // [ids.size(), dim] in the row type, as stored, if requested
  BytesColumn payloads;       // one value per row, if requested
  // If requested, the ordinal of each row (row_filter.h). It names that row for as long as the
  // state that was read is held.
  std::vector<uint32_t> ordinals;
};

// Data to copy in addition to ids and scores.
struct RowParts {
  bool vectors = false;
  bool payloads = false;
  bool ordinals = false;
  // Maximum bytes of vectors and payloads that one call may copy, over all its queries:
  // ResourceExhausted above that, before anything is copied. 0: no limit.
  int64_t bytes_max = 0;
};

struct CollectionStats {
  uint64_t epoch = 0;
  int64_t rows_count = 0;    // live rows
  int64_t rows_deleted = 0;  // deleted rows whose memory is not released yet
  int32_t generations_count = 0;
  ScanPrecision scan = ScanPrecision::kRows;  // what scans read: ScanChoice::kAuto resolved
  // Memory of the device that holds rows (VRAM; host memory on the CPU backend).
  int64_t device_bytes = 0;
  // Ids, their index and Bloom filter, payloads; rows of RowPlacement::kHost on the GPU backend.
  int64_t host_bytes = 0;
};

struct CompactionOptions {
  // A generation with a larger share of deleted rows is copied without them.
  double dead_share_max = 0.2;
  // If there are more generations, some are joined. 1 .. kGenerationsMax.
  int32_t generations_max = kGenerationsMax / 2;
};

struct CompactionResult {
  bool done = false;            // true: there was nothing to do
  int64_t rows_copied = 0;      // live rows
  int64_t rows_given_back = 0;  // deleted rows whose memory is free now
};

// A state of a collection that stays unchanged, including the memory of its rows, for as long as
// this object exists.
class PinnedEpoch {
 public:
  virtual ~PinnedEpoch() = default;
  virtual uint64_t epoch() const = 0;
  virtual int64_t rows_count() const = 0;  // live rows
};

using PinnedEpochs = std::vector<std::shared_ptr<const PinnedEpoch>>;

// Selects the next rows of one state in the order of their ids.
struct OrderedRead {
  const PinnedEpoch* at = nullptr;    // null: the current state
  std::optional<Id> after;            // only rows with a larger id; absent: all rows
  const RowFilter* filter = nullptr;  // only rows that it chooses; null: all
  // The read ends before the row that would exceed bytes_max, which here also covers ids and
  // lengths.
  RowParts parts;
  int64_t rows_max = 0;  // at least 1
  // Maximum number of rows to look at, deleted and excluded ones included: bounds the time of the
  // read. At least 1.
  int64_t rows_examined_max = kRowsMax;
};

// May have no row before the end: then the read examined rows_examined_max rows.
struct OrderedRows {
  FetchResult found;       // in the order of the ids
  std::optional<Id> last;  // OrderedRead::after of the next read; absent: no row was examined
  bool ended = false;      // no row follows
};

// Bytes of memory by location.
struct HeldBytes {
  int64_t device = 0;     // rows, codes and their bounds, norms, ranks
  int64_t host = 0;       // ids, their order, payloads, bits of deleted rows
  int64_t host_rows = 0;  // rows of RowPlacement::kHost on the GPU backend

  HeldBytes& operator+=(const HeldBytes& other) {
    device += other.device;
    host += other.host;
    host_rows += other.host_rows;
    return *this;
  }
  bool FitsIn(const HeldBytes& limit) const {
    return device <= limit.device && host <= limit.host && host_rows <= limit.host_rows;
  }
};

// Thread safety: thread-safe.
class Collection {
 public:
  virtual ~Collection() = default;
  virtual const CollectionSpec& spec() const = 0;
  virtual CollectionStats Stats() const = 0;

  // Returns the current state.
  virtual std::shared_ptr<const PinnedEpoch> PinEpoch() const = 0;

  // Returns the current state and each earlier state that still has a holder. No other state can be
  // requested again.
  virtual PinnedEpochs ReachableEpochs() const = 0;

  // Returns the memory that these states of the collection hold together and the current state does
  // not. It is released when none of them has a holder. Attributes are not included.
  virtual HeldBytes BytesHeldBy(const PinnedEpochs& epochs) const = 0;

  // Returns the memory that an upload reserves when it begins. Errors: InvalidArgument (a limit out
  // of range), ResourceExhausted (more than 2^63 bytes).
  virtual absl::StatusOr<HeldBytes> UploadBytes(const UploadReservation& reservation) const = 0;

  // Errors: InvalidArgument (a limit out of range), ResourceExhausted (does not fit: names needed
  // and free bytes).
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) = 0;

  // Deletes rows by id. Deleting only unknown ids does not change the epoch. Errors:
  // InvalidArgument (id type), ResourceExhausted (no device memory for one bit per row of the
  // generations that hold the ids), Unavailable (device lost). After an error nothing is deleted.
  virtual absl::StatusOr<DeleteResult> Delete(const IdColumn& ids,
                                              const CommitHook& before_visible) = 0;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids) { return Delete(ids, nullptr); }

  // Deletes the live rows whose ordinals `rows` contains. Ids do not matter: a newer row with the
  // same id has another ordinal, and stays. Requires: `rows` was chosen in a state that the caller
  // holds until the call returns; otherwise an ordinal may belong to another row by then. Errors:
  // as Delete.
  virtual absl::StatusOr<DeleteResult> DeleteRows(const RowFilter& rows,
                                                  const CommitHook& before_visible) = 0;

  // Changes rows that stay where they are. Calls `choose` while other changes of the collection
  // wait. Each changed row gets a new ordinal; the old one is free for ReleaseOrdinals once no held
  // state shows it. If the hook was called and failed, the caller must release the new ordinals.
  // Errors: ResourceExhausted (host memory; no free range of ordinals is long enough), Unavailable
  // (device lost), those of `choose` and of the hook. After an error nothing is changed.
  virtual absl::StatusOr<UpdateResult> Update(const ChooseChanges& choose,
                                              const CommitHook& before_visible) = 0;

  // Returns the live rows of `at` (null: the current state), by ordinal. Cost: a pass over one bit
  // per row. Errors: InvalidArgument (an epoch of another collection).
  virtual absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* at) const = 0;
  // Returns the live rows with these ids; unknown ids are ignored. Errors: InvalidArgument (an
  // epoch of another collection, or the type of the ids).
  virtual absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* at,
                                                const IdColumn& ids) const = 0;
  // Returns the number of live rows that `rows` chooses. Errors: as LiveRows.
  virtual absl::StatusOr<int64_t> CountRows(const PinnedEpoch* at, const RowFilter& rows) const = 0;

  // Makes ordinals free for the rows of later uploads. Requires: all of them are in use; no held
  // state shows a row with one of them; no running upload has them; no existing filter will be used
  // on later states. Ordinals that are never released are never given to another row, with one
  // exception: a failed Commit without TakeOrdinals frees the ordinals that it took itself.
  virtual void ReleaseOrdinals(uint32_t first, int64_t rows_count) noexcept = 0;

  // Releases the memory of deleted rows and joins small generations, where that is worthwhile, by
  // copying live rows. Searches and changes continue; answers and the epoch do not change. Each
  // call does one step; `done` if there was nothing to do. Errors: ResourceExhausted (no memory for
  // the copy in addition to the rows), Cancelled, Unavailable (device lost).
  virtual absl::StatusOr<CompactionResult> Compact(const CompactionOptions& options) = 0;

  // Returns rows of `at` (null: the current state) by id. Errors: InvalidArgument (an epoch of
  // another collection, or the type of the ids), Unavailable (device lost).
  virtual absl::StatusOr<FetchResult> Fetch(const PinnedEpoch* at, const IdColumn& ids,
                                            RowParts parts) const = 0;
  absl::StatusOr<FetchResult> Fetch(const IdColumn& ids, RowParts parts) const {
    return Fetch(nullptr, ids, parts);
  }

  // Returns the live rows of `at` (null: the current state) that `rows` chooses, in no particular
  // order. Errors: as Fetch.
  virtual absl::StatusOr<FetchResult> FetchChosen(const PinnedEpoch* at, const RowFilter& rows,
                                                  RowParts parts) const = 0;

  // Returns the live rows of one state that follow an id. Reads with `last` of the read before
  // return every row once. Cost: a binary search in each generation, then one step for each row
  // examined; one gather from each generation. Errors: InvalidArgument (a limit out of range, the
  // type of the id, an epoch of another collection), ResourceExhausted (the next row alone exceeds
  // bytes_max), Unavailable (device lost).
  virtual absl::StatusOr<OrderedRows> ReadInOrder(const OrderedRead& read) const = 0;
};

}  // namespace nearfield
