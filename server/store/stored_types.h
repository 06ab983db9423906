// Plain types of the store's interface: rows in blocks, states of collections and uploads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

// The rows of one block, borrowed. The store returns them bit for bit.
struct StoredBlock {
  int64_t number = 0;              // position in its upload: 0, 1, ..
  const IdColumn* ids = nullptr;   // one id for each row, at least one
  absl::Span<const uint8_t> rows;  // [ids->size(), dim] row-major, little-endian, in the row type
  const BytesColumn* payloads = nullptr;    // one for each row; null: every value is empty
  const BytesColumn* attributes = nullptr;  // as payloads; opaque to the store
  int64_t segment = 0;                      // of a load: the segment of the block ..
  int64_t block = 0;                        // .. and its position there
};

struct StoredCollection {
  int64_t id = 0;
  std::string name;
  std::vector<std::string> aliases;                 // in order
  std::map<std::string, std::string> alias_owners;  // the principals that created them, if any
  CollectionSpec spec;
  bool scan_removed = false;     // created for a removed scan: spec.scan is kInt8 instead
  std::string attribute_schema;  // opaque
  std::string owner;             // the principal that created it; empty: none
  uint64_t epoch = 0;            // of the last commit; 0: none yet
  int64_t rows_count = 0;        // live rows
  int64_t rows_stored = 0;       // with dead rows that compaction has not removed yet
  int64_t bytes = 0;             // of its segments
  int64_t patch_bytes = 0;       // of its patch records
  int64_t segments_count = 0;
  int64_t created_unix_s = 0;
};

using nearfield::UploadMode;

// Names an upload with a token. Each collection has its own tokens.
struct UploadKey {
  int64_t collection_id = 0;
  std::string token;  // 1 .. kTokenBytesMax bytes
};

struct BeginUploadOptions {
  UploadMode mode = UploadMode::kInsert;
  // Makes the upload resumable; empty: it ends with its writer. At most kTokenBytesMax.
  std::string token;
  // The caller of the upload, known while the store is open; empty: no particular caller.
  std::string caller;
  // Disk space that is reserved at the begin; more is reserved as blocks need it. See UploadBytes.
  int64_t bytes_expected = 0;
};

// The changes of one commit, in addition to the rows of its segment.
struct UploadCommit {
  uint64_t epoch = 0;  // the collection's epoch + 1
  // The upload has no rows and changes nothing, because there was nothing to change at `epoch`, the
  // collection's or an earlier one. Only its token is kept.
  bool without_effect = false;
  // kUpsert: the ids of the upload that named a live row of an earlier commit, each once.
  const IdColumn* replaced_ids = nullptr;
  // Rows of this upload that a later row of it replaces, by position in the upload, ascending.
  absl::Span<const int64_t> superseded_rows;
};

// Maximum tokens of updates that each collection remembers, and bytes of their replies.
inline constexpr int64_t kUpdateTokensMax = 10'000;
inline constexpr int64_t kUpdateReplyBytesMax = int64_t{16} << 20;

// One update of rows that stay where they are. Borrowed.
struct StoredUpdate {
  uint64_t epoch = 0;             // the collection's epoch + 1, or that of the update before + 1
  const IdColumn* ids = nullptr;  // of live rows, each once; at least one
  // All attributes of each row after the update, as in a block; null: they stay.
  const BytesColumn* attributes = nullptr;
  // Null where the payload stays. One for each row; none: all stay.
  absl::Span<const std::string* const> payloads;
  std::string token;  // remembered with the reply; empty: none
  std::string reply;  // opaque
};

enum class UploadState : uint8_t { kOpen = 1, kCommitted = 2 };

struct UploadInfo {
  UploadState state = UploadState::kOpen;
  UploadMode mode = UploadMode::kInsert;
  int64_t next_block = 0;     // kOpen: the first block that is not durable
  int64_t rows_count = 0;     // kOpen: durable rows. kCommitted: rows that the upload added
  int64_t bytes_durable = 0;  // on the disk
  int64_t rows_replaced = 0;  // kCommitted: rows of earlier epochs that it replaced
  uint64_t epoch = 0;         // kCommitted
};

// An upload with a token that is neither committed nor dropped.
struct OpenUpload {
  std::string token;
  int64_t collection_id = 0;
  UploadMode mode = UploadMode::kInsert;
  int64_t rows_count = 0;     // durable rows
  int64_t bytes_on_disk = 0;  // of its file, including space reserved for later blocks
  int64_t untouched_s = 0;    // since its begin, its last checkpoint or its last resumption
  bool is_live = false;       // it has a writer
};

struct LoadProgress {
  int64_t bytes_read = 0;
  int64_t bytes_total = 0;
  int64_t rows_read = 0;  // including dead rows
};

struct LoadOptions {
  // Threads that read and verify, 1 .. 64; the caller's thread runs the sink.
  int32_t threads = 2;
  // Bytes that one thread reads at a time; a larger block is read whole.
  int64_t read_bytes = int64_t{8} << 20;
  // Load only the rows of this segment (see Store::Segments); 0: of all.
  int64_t segment = 0;
  std::function<bool()> cancelled;                    // polled; true: Cancelled
  std::function<void(const LoadProgress&)> progress;  // after each read, on the caller's thread
};

struct CompactOptions {
  // A segment is rewritten if more than this share of its rows is dead or patched ..
  double dead_share_max = 0.20;
  // .. or if at least small_segments_min segments have fewer bytes than this.
  int64_t small_bytes_max = int64_t{64} << 20;
  int64_t small_segments_min = 4;
  // Approximate limit of the bytes that one compaction writes. The rest waits for the next one.
  int64_t bytes_max = int64_t{8} << 30;
  // A block that patches have made larger than this is divided.
  int64_t block_bytes_max = int64_t{256} << 20;
  std::function<bool()> cancelled;  // polled between blocks
};

struct CompactionResult {
  int64_t segments_before = 0;
  int64_t segments_after = 0;
  int64_t rows_dropped = 0;  // dead rows that were removed
  int64_t bytes_before = 0;  // of segments
  int64_t bytes_after = 0;
  int64_t ids_dropped = 0;  // ids in deletion and patch records that no row needs any more
};

struct SnapshotOptions {
  std::string owner;                // the principal that makes it; empty: none
  std::function<bool()> cancelled;  // polled; true: Cancelled
};

// A snapshot as its manifest describes it. Its files were not read.
struct SnapshotInfo {
  std::string name;   // of its directory, without the path
  std::string owner;  // the principal that made it; empty: none, or made in format 4 or earlier
  int64_t files = 0;
  int64_t bytes = 0;           // of the files; other snapshots and the store may share some
  int64_t created_unix_s = 0;  // the manifest's time
  absl::Status state;          // DataLoss: the manifest is unreadable, the rest unknown
};

// The DataLoss errors of Load and Compact in a collection since the start.
struct ReadFailures {
  int64_t count = 0;
  absl::Status latest;  // OK: none
};

struct VerifyReport {
  int64_t collections = 0;
  int64_t segments = 0;
  int64_t blocks = 0;
  int64_t rows = 0;  // including dead rows
  int64_t bytes = 0;
  int64_t commits = 0;  // links of the chain that were checked
};

}  // namespace nearfield::store
