// StreamBlocks: reads segments as an ordered stream of verified blocks, with read-ahead threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/store/block_codec.h"
#include "server/store/deleted_ids.h"
#include "server/store/file.h"
#include "server/store/row_patches.h"
#include "server/store/segment_file.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// One segment to read, or the durable part of one that is being written.
struct StreamSource {
  const Directory* directory = nullptr;
  SegmentIdentity identity;
  SegmentExtent extent;
  bool may_be_longer = false;       // an unfinished upload: bytes after the extent are not read
  std::string digest;               // expected digest of the whole extent; empty: not known
  int64_t seq = 0;                  // determines which rows are live
  std::vector<int64_t> superseded;  // also
};

StreamSource SourceOf(const CommittedSegment& segment);

struct StreamTotals {
  int64_t rows = 0;       // rows read
  int64_t rows_dead = 0;  // those of them that were left out
  int64_t blocks = 0;
  int64_t bytes = 0;
  Sha256 digest;  // of the last source, to be continued by an append
};

// Receives each block that has live rows. Its bytes are valid until the sink returns.
using BlockSink =
    std::function<absl::Status(const StreamSource& source, const DecodedBlock& block)>;

// Records that change rows of segments.
struct RowRecords {
  DeletedIds deleted;
  RowPatches patches;
};

// Calls `sink` on this thread for every block of every source, in order. Every block is verified
// first. A source that ends with other rows, blocks or another digest than expected is DataLoss.
//   records: rows to leave out and to change; null: none.
// Memory: (options.threads + 2) reads. Errors: DataLoss (names file, block, bytes), Cancelled,
// those of the sink, ResourceExhausted (memory), I/O errors. Errors are returned in order: all
// blocks before the error were delivered.
absl::Status StreamBlocks(absl::Span<const StreamSource> sources, const RowRecords* records,
                          const LoadOptions& options, const BlockSink& sink, StreamTotals* totals);

}  // namespace nearfield::store
