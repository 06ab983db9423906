// A collection: the corpus of one schema, its uploads and its deletions.
#ifndef NEARFIELD_ENGINE_COLLECTION_H_
#define NEARFIELD_ENGINE_COLLECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/types.h"

namespace nearfield {

struct CollectionSpec {
  int32_t dim = 0;  // 1 .. kDimMax
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  IdType id_type = IdType::kUint64;
};

// What an upload may take; reserved in full at its begin, the unused part given back at its end.
struct UploadReservation {
  int64_t rows_max = 0;           // 1 .. kRowsMax
  int64_t payload_bytes_max = 0;  // >= 0
};

// Rows of one upload block, borrowed for the call.
struct UploadBlock {
  const IdColumn* ids = nullptr;  // one id a row
  // [ids->size(), dim] row-major, little-endian, in the collection's row type; finite.
  absl::Span<const uint8_t> rows;
  const BytesColumn* payloads = nullptr;  // one value a row, or null: every payload empty
};

struct CommitResult {
  uint64_t epoch = 0;      // the first epoch that shows the rows
  int64_t rows_count = 0;  // rows this upload added
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

  // Makes all rows visible at once: epoch + 1. An upload without rows commits nothing and returns
  // the current epoch. Errors: AlreadyExists (an id twice in the upload, or already in the
  // collection: names it); ResourceExhausted (the corpus has kGenerationsMax parts and no memory to
  // merge them); Unavailable (device lost).
  virtual absl::StatusOr<CommitResult> Commit() = 0;
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
  // Memory of the device that holds rows (VRAM, or host memory on the CPU backend).
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;  // ids, their order and filter, payloads
};

// Thread-safe.
class Collection {
 public:
  virtual ~Collection() = default;
  virtual const CollectionSpec& spec() const = 0;
  virtual CollectionStats Stats() const = 0;

  // Errors: InvalidArgument (a limit out of range), ResourceExhausted (does not fit: says needed
  // and free bytes).
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) = 0;

  // Errors: InvalidArgument (id type), ResourceExhausted (no device memory for a bit a row of the
  // parts that hold the ids), Unavailable (device lost). After an error nothing is deleted.
  // Deleting only unknown ids leaves the epoch as it is.
  virtual absl::StatusOr<DeleteResult> Delete(const IdColumn& ids) = 0;

  // Errors: InvalidArgument (id type), Unavailable (device lost).
  virtual absl::StatusOr<FetchResult> Fetch(const IdColumn& ids, RowParts parts) const = 0;
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_COLLECTION_H_
