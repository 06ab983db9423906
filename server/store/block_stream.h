// Segments as a stream of verified blocks, read ahead by several threads, in order.
#ifndef NEARFIELD_SERVER_STORE_BLOCK_STREAM_H_
#define NEARFIELD_SERVER_STORE_BLOCK_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/store/block_codec.h"
#include "server/store/deleted_ids.h"
#include "server/store/file.h"
#include "server/store/segment_file.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// One segment to be read, or the durable part of one that is being written.
struct StreamSource {
  const Directory* directory = nullptr;
  SegmentIdentity identity;
  SegmentExtent extent;
  bool may_be_longer = false;       // an unfinished upload: what follows the extent is not read
  std::string digest;               // expected of the whole extent; empty: not known
  int64_t seq = 0;                  // for liveness
  std::vector<int64_t> superseded;  // likewise
};

StreamSource SourceOf(const CommittedSegment& segment);

struct StreamTotals {
  int64_t rows = 0;       // read
  int64_t rows_dead = 0;  // of those, left out
  int64_t blocks = 0;
  int64_t bytes = 0;
  Sha256 digest;  // of the last source, to go on with
};

// Gets each block that has live rows; its bytes live until the sink returns.
using BlockSink =
    std::function<absl::Status(const StreamSource& source, const DecodedBlock& block)>;

// Calls `sink` on this thread for every block of every source, in order. Every block is verified
// before; a source that ends with other rows, blocks or another digest than expected is DataLoss.
//   deleted: rows to leave out, or null: all rows come.
// Memory: (options.threads + 2) reads. Errors: DataLoss (names file, block, bytes), Cancelled, the
// sink's, ResourceExhausted (memory), I/O errors. Errors come in order too: all before was
// delivered.
absl::Status StreamBlocks(absl::Span<const StreamSource> sources, const DeletedIds* deleted,
                          const LoadOptions& options, const BlockSink& sink, StreamTotals* totals);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_BLOCK_STREAM_H_
