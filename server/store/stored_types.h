// What the store takes and gives: rows in blocks, facts of collections and uploads. Plain types.
#ifndef NEARFIELD_SERVER_STORE_STORED_TYPES_H_
#define NEARFIELD_SERVER_STORE_STORED_TYPES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"

namespace nearfield::store {

inline constexpr int64_t kBlockBytesMax = int64_t{1} << 30;   // of one block, all its columns
inline constexpr int64_t kNameBytesMax = 256;                 // of a collection's name or an alias
inline constexpr int64_t kTokenBytesMax = 256;                // of an upload token
inline constexpr int64_t kSchemaBytesMax = int64_t{1} << 20;  // of an attribute schema

// Rows of one block, borrowed. What goes in comes out bit for bit.
struct StoredBlock {
  int64_t number = 0;              // its place in its upload: 0, 1, ..
  const IdColumn* ids = nullptr;   // one id a row, at least one
  absl::Span<const uint8_t> rows;  // [ids->size(), dim] row-major, little-endian, in the row type
  const BytesColumn* payloads = nullptr;    // one value a row; null: every value empty
  const BytesColumn* attributes = nullptr;  // likewise; opaque to the store
  int64_t segment = 0;                      // of a load: the segment it lies in ..
  int64_t block = 0;                        // .. and its place there
};

struct StoredCollection {
  int64_t id = 0;
  std::string name;
  std::vector<std::string> aliases;  // in order
  CollectionSpec spec;
  bool scan_removed = false;     // created for a scan that was removed: spec.scan is kInt8 instead
  std::string attribute_schema;  // opaque
  uint64_t epoch = 0;            // of the last commit; 0: none yet
  int64_t rows_count = 0;        // live rows
  int64_t rows_stored = 0;       // those and dead ones that compaction has not removed yet
  int64_t bytes = 0;             // of its segments
  int64_t segments_count = 0;
  int64_t created_unix_s = 0;
};

using nearfield::UploadMode;

struct BeginUploadOptions {
  UploadMode mode = UploadMode::kInsert;
  // Makes the upload resumable; empty: it ends with its writer. At most kTokenBytesMax.
  std::string token;
  // Whose upload it is, while the store is open; empty: of no caller in particular.
  std::string caller;
  // Room on the disk, reserved at once; more is reserved as blocks need it. See UploadBytes.
  int64_t bytes_expected = 0;
};

// What one commit changes beside adding the rows of its segment.
struct UploadCommit {
  uint64_t epoch = 0;  // the collection's + 1
  // The upload changes nothing, as at `epoch`, the collection's or an earlier one, there was
  // nothing to change: only its token is kept. It has no rows.
  bool without_effect = false;
  // kUpsert: those ids of the upload that named a live row of an earlier commit, each once.
  const IdColumn* replaced_ids = nullptr;
  // Rows of this upload that a later row of it replaces, by place in the upload, ascending.
  absl::Span<const int64_t> superseded_rows;
};

enum class UploadState : uint8_t { kOpen = 1, kCommitted = 2 };

struct UploadFacts {
  UploadState state = UploadState::kOpen;
  int64_t collection_id = 0;
  UploadMode mode = UploadMode::kInsert;
  int64_t next_block = 0;     // kOpen: the first block that is not durable
  int64_t rows_count = 0;     // kOpen: durable rows. kCommitted: rows that the upload added
  int64_t rows_replaced = 0;  // kCommitted: rows of earlier epochs that went
  uint64_t epoch = 0;         // kCommitted
};

// An upload with a token that is neither committed nor dropped.
struct OpenUpload {
  std::string token;
  int64_t collection_id = 0;
  UploadMode mode = UploadMode::kInsert;
  int64_t rows_count = 0;     // durable rows
  int64_t bytes_on_disk = 0;  // of its file, room reserved for blocks to come included
  int64_t untouched_s = 0;    // since its begin, its last checkpoint or its last resumption
  bool is_live = false;       // it has a writer
};

struct LoadProgress {
  int64_t bytes_read = 0;
  int64_t bytes_total = 0;
  int64_t rows_read = 0;  // dead ones included
};

struct LoadOptions {
  // Threads that read and verify, 1 .. 64; the caller's thread runs the sink.
  int32_t threads = 2;
  // Bytes that one thread reads at once; a larger block is read whole.
  int64_t read_bytes = int64_t{8} << 20;
  // Only the rows of this segment (see Store::Segments); 0: of all.
  int64_t segment = 0;
  std::function<bool()> cancelled;                    // true: Cancelled, soon
  std::function<void(const LoadProgress&)> progress;  // after each read, on the caller's thread
};

struct CompactOptions {
  // A segment is rewritten when more than this share of its rows is dead ..
  double dead_share_max = 0.20;
  // .. or when at least small_segments_min segments have fewer bytes than this.
  int64_t small_bytes_max = int64_t{64} << 20;
  int64_t small_segments_min = 4;
  // Bytes that one compaction writes, roughly: what is left waits for the next one.
  int64_t bytes_max = int64_t{8} << 30;
  std::function<bool()> cancelled;  // asked between blocks
};

struct CompactionResult {
  int64_t segments_before = 0;
  int64_t segments_after = 0;
  int64_t rows_dropped = 0;  // dead rows that are gone
  int64_t bytes_before = 0;  // of segments
  int64_t bytes_after = 0;
  int64_t ids_dropped = 0;  // ids in deletion records that no row needs any more
};

struct SnapshotOptions {
  std::function<bool()> cancelled;  // true: Cancelled, soon
};

// A snapshot as its manifest tells it; its files were not read.
struct SnapshotFacts {
  std::string name;  // of its directory, without the path
  int64_t files = 0;
  int64_t bytes = 0;           // of the files, of which other snapshots and the store share some
  int64_t created_unix_s = 0;  // the manifest's time
  absl::Status state;          // DataLoss: the manifest cannot be read, and the rest is unknown
};

// The DataLoss errors that Load and Compact met in a collection since the start.
struct ReadFailures {
  int64_t count = 0;
  absl::Status latest;  // OK: none
};

struct VerifyReport {
  int64_t collections = 0;
  int64_t segments = 0;
  int64_t blocks = 0;
  int64_t rows = 0;  // dead ones included
  int64_t bytes = 0;
  int64_t commits = 0;  // links of the chain that were checked
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_STORED_TYPES_H_
