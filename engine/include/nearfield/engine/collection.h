// A collection: the corpus of one schema, its uploads and its deletions.
#ifndef NEARFIELD_ENGINE_COLLECTION_H_
#define NEARFIELD_ENGINE_COLLECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  RowHome rows = RowHome::kDevice;
};

// What an upload does where an id is in the collection already.
enum class UploadMode : uint8_t {
  kInsert = 1,   // refused: AlreadyExists
  kUpsert = 2,   // its row is replaced; of an id that is several times in the upload, the last wins
  kReplace = 3,  // the upload becomes the whole collection
};

// What an upload may take; reserved in full at its begin, the unused part given back at its end.
struct UploadReservation {
  int64_t rows_max = 0;           // 1 .. kRowsMax
  int64_t payload_bytes_max = 0;  // >= 0
  UploadMode mode = UploadMode::kInsert;
  // false: the host memory of string ids and payloads is taken as they come, not what they may need
  // at most; Append can then answer ResourceExhausted.
  bool values_reserved = true;
};

// A change that is about to become visible.
struct PendingChange {
  uint64_t epoch = 0;          // the first that shows it
  int64_t rows_count = 0;      // rows it adds
  uint32_t first_ordinal = 0;  // of the upload's rows, in the order they came: see row_filter.h
  // Rows of the upload, by their place in it, ascending, that a later one of the same id replaces.
  absl::Span<const uint32_t> rows_superseded;
  // Whose rows go: deleted, or replaced one by one. Borrowed for the call; never null.
  const IdColumn* ids_removed = nullptr;
  bool removes_all = false;  // every row that was there goes
};

// Called once, after every check and with all memory taken, while other changes of the collection
// wait: where it returns an error nothing changes, and the caller of the change gets that error; OK
// and the change becomes visible, whatever happens. What keeps a collection durable writes its
// record here. Not called where nothing changes. May be empty.
using CommitHook = std::function<absl::Status(const PendingChange&)>;

// Rows of one upload block, borrowed for the call.
struct UploadBlock {
  const IdColumn* ids = nullptr;  // one id a row
  // [ids->size(), dim] row-major, little-endian, in the collection's row type; finite.
  absl::Span<const uint8_t> rows;
  const BytesColumn* payloads = nullptr;  // one value a row, or null: every payload empty
};

struct CommitResult {
  uint64_t epoch = 0;         // the first epoch that shows the rows
  int64_t rows_count = 0;     // rows this upload added
  int64_t rows_replaced = 0;  // rows of earlier epochs that went
};

// One upload: Append any number of times, then Commit. Destroyed before Commit it leaves nothing
// behind. Not thread-safe; different uploads may run at once, and searches go on meanwhile.
class Upload {
 public:
  virtual ~Upload() = default;

  // Errors: InvalidArgument (id type, byte count, a non-finite value: names the row),
  // ResourceExhausted (more rows or payload bytes than reserved), Unavailable (device lost). After
  // an error the upload can only be destroyed.
  virtual absl::Status Append(const UploadBlock& block) = 0;

  // The rows are all there: the first one's ordinal, the others follow in the order they came. So
  // what goes by ordinals can be made ready before Commit, while other changes go on. Afterwards
  // Append fails, and the ordinals are the caller's to give back where the upload does not commit
  // (Collection::ReleaseOrdinals). Requires a row. Errors: ResourceExhausted (no free range of
  // EngineOptions::ordinals_max is long enough).
  virtual absl::StatusOr<uint32_t> TakeOrdinals() = 0;

  // Makes all rows visible at once: epoch + 1. An upload without rows commits nothing and returns
  // the current epoch; with kReplace it empties the collection. Errors: AlreadyExists (kInsert: an
  // id twice in the upload, or already in the collection; kReplace: an id twice; names it);
  // ResourceExhausted (the corpus has kGenerationsMax parts and no memory to merge them; kUpsert:
  // no device memory for a bit a row of the parts whose rows are replaced); Unavailable (device
  // lost); what the hook returned.
  virtual absl::StatusOr<CommitResult> Commit(const CommitHook& before_visible) = 0;
  absl::StatusOr<CommitResult> Commit() { return Commit(nullptr); }
};

struct DeleteResult {
  uint64_t epoch = 0;        // the first epoch without the rows
  int64_t rows_deleted = 0;  // ids that named a row; others are ignored
};

// Rows found by id, in the order asked for; ids that name no row are left out.
struct FetchResult {
  uint64_t epoch = 0;
  IdColumn ids;
  std::vector<uint8_t> rows;  // [ids.size(), dim] in the row type, as stored, if asked for
  BytesColumn payloads;       // one value a row, if asked for
};

// What to copy beside ids and scores.
struct RowParts {
  bool vectors = false;
  bool payloads = false;
  // Bytes of vectors and payloads that one call may copy, all its queries together:
  // ResourceExhausted beyond, before anything is copied. 0: no limit.
  int64_t bytes_max = 0;
};

struct CollectionStats {
  uint64_t epoch = 0;
  int64_t rows_count = 0;    // live rows
  int64_t rows_deleted = 0;  // rows deleted whose memory is not yet given back
  int32_t generations_count = 0;
  ScanPrecision scan = ScanPrecision::kRows;  // what scans read: ScanChoice::kAuto resolved
  // Memory of the device that holds rows (VRAM, or host memory on the CPU backend).
  int64_t device_bytes = 0;
  // Ids, their order and filter, payloads; rows of RowHome::kHost on the GPU backend.
  int64_t host_bytes = 0;
};

struct CompactionOptions {
  // A part with a greater share of deleted rows is copied without them.
  double dead_share_max = 0.2;
  // With more parts than this some are joined. 1 .. kGenerationsMax.
  int32_t generations_max = kGenerationsMax / 2;
};

struct CompactionResult {
  bool done = false;            // nothing was to be done
  int64_t rows_copied = 0;      // live rows
  int64_t rows_given_back = 0;  // deleted rows whose memory is free now
};

// A state of a collection that stays as it is, its rows' memory with it, for as long as this is
// held.
class PinnedEpoch {
 public:
  virtual ~PinnedEpoch() = default;
  virtual uint64_t epoch() const = 0;
  virtual int64_t rows_count() const = 0;  // live rows
};

using PinnedEpochs = std::vector<std::shared_ptr<const PinnedEpoch>>;

// Memory by where it lies.
struct HeldBytes {
  int64_t device = 0;     // rows, codes and their bounds, norms, ranks
  int64_t host = 0;       // ids, their order, payloads, bits of deleted rows
  int64_t host_rows = 0;  // rows of RowHome::kHost on the GPU backend

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

// Thread-safe.
class Collection {
 public:
  virtual ~Collection() = default;
  virtual const CollectionSpec& spec() const = 0;
  virtual CollectionStats Stats() const = 0;

  // The current state.
  virtual std::shared_ptr<const PinnedEpoch> PinEpoch() const = 0;

  // The current state and, once each, those earlier ones that somebody still holds: no other can be
  // asked for again.
  virtual PinnedEpochs HeldEpochs() const = 0;

  // The memory that these states of the collection hold together and the current state does not:
  // what is given back once nobody holds any of them. Attributes are not part of it.
  virtual HeldBytes BytesHeldBy(const PinnedEpochs& epochs) const = 0;

  // Errors: InvalidArgument (a limit out of range), ResourceExhausted (does not fit: says needed
  // and free bytes).
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) = 0;

  // Errors: InvalidArgument (id type), ResourceExhausted (no device memory for a bit a row of the
  // parts that hold the ids), Unavailable (device lost). After an error nothing is deleted.
  // Deleting only unknown ids leaves the epoch as it is.
  virtual absl::StatusOr<DeleteResult> Delete(const IdColumn& ids,
                                              const CommitHook& before_visible) = 0;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids) { return Delete(ids, nullptr); }

  // Deletes the live rows that `rows` chooses. A row that took the id of a chosen one since the
  // choice was made has another ordinal, and stays; a row that took the ordinal of one goes with
  // it. So choose no other rows than those of a state that is held until the call returns: their
  // ordinals are not released. Errors: as Delete.
  virtual absl::StatusOr<DeleteResult> DeleteRows(const RowFilter& rows,
                                                  const CommitHook& before_visible) = 0;

  // The live rows of `at` (null: the current state), by ordinal. Cost: a pass over a bit a row.
  // These three: InvalidArgument (an epoch of another collection; the type of the ids).
  virtual absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* at) const = 0;
  // Those of them with these ids; other ids count for nothing.
  virtual absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* at,
                                                const IdColumn& ids) const = 0;
  // How many of them `rows` chooses.
  virtual absl::StatusOr<int64_t> CountRows(const PinnedEpoch* at, const RowFilter& rows) const = 0;

  // Makes ordinals free for the rows of later uploads. Requires that all of them are in use. The
  // caller promises that no state that is held shows a row with one of them, that no running upload
  // has them, and that no filter of now chooses among the rows of later states. Ordinals that are
  // never released are never given to another row; those that a failed Commit took itself, without
  // TakeOrdinals, are free again.
  virtual void ReleaseOrdinals(uint32_t first, int64_t rows_count) noexcept = 0;

  // Gives back the memory of deleted rows and joins small parts, where that is worth it, by copying
  // live rows; searches and changes go on meanwhile, answers and the epoch stay as they are. One
  // step a call; `done` where nothing is left to do. Errors: ResourceExhausted (no memory for the
  // copy beside the rows), Cancelled, Unavailable (device lost).
  virtual absl::StatusOr<CompactionResult> Compact(const CompactionOptions& options) = 0;

  // Errors: InvalidArgument (id type), Unavailable (device lost).
  virtual absl::StatusOr<FetchResult> Fetch(const IdColumn& ids, RowParts parts) const = 0;
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_COLLECTION_H_
