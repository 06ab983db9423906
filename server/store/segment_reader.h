// Reads a segment: which blocks lie where, their ids alone, or all of them.
#ifndef NEARFIELD_SERVER_STORE_SEGMENT_READER_H_
#define NEARFIELD_SERVER_STORE_SEGMENT_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/store/block_codec.h"
#include "server/store/file.h"
#include "server/store/segment_file.h"
#include "server/store/segment_format.h"

namespace nearfield::store {

struct BlockPlace {
  int64_t offset = 0;
  BlockHeader header;

  int64_t end() const { return offset + header.bytes(); }
};

// Walks the blocks of one segment in order. Errors of every call: DataLoss naming file, block and
// bytes; NotFound (no such file); else an I/O error.
class SegmentReader {
 public:
  // Opens the file and checks its header and that it has exactly `bytes`; where `may_be_longer`, at
  // least that many.
  static absl::StatusOr<SegmentReader> Open(const Directory& directory,
                                            const SegmentIdentity& identity, int64_t bytes,
                                            bool may_be_longer);

  const SegmentIdentity& identity() const { return identity_; }
  const std::string& path() const { return file_.path(); }
  // As its digest covers it: sealed, also where the upload is still open.
  const SegmentHeaderBytes& header() const { return header_; }

  // Whether a block follows those already walked past, and how many rows and blocks those had.
  bool AtEnd() const { return offset_ >= bytes_; }
  int64_t rows() const { return rows_; }
  int64_t blocks() const { return blocks_; }

  // Walks past the next blocks: one, and more as long as they fit `bytes_max` together.
  absl::StatusOr<std::vector<BlockPlace>> NextBlocks(int64_t bytes_max);
  // Reads those blocks, which follow each other, into `bytes` of just their size. Thread-safe.
  absl::Status Read(absl::Span<const BlockPlace> places, absl::Span<uint8_t> bytes) const;
  // Only the ids of a block, verified. Thread-safe.
  absl::StatusOr<IdColumn> ReadIds(const BlockPlace& place) const;
  void WillRead(int64_t offset, int64_t bytes) const { file_.WillRead(offset, bytes); }
  int64_t offset() const { return offset_; }

 private:
  SegmentReader(const SegmentIdentity& identity, File file, int64_t bytes)
      : identity_(identity), file_(std::move(file)), bytes_(bytes) {}
  absl::StatusOr<BlockPlace> NextBlock();

  SegmentIdentity identity_;
  File file_;
  int64_t bytes_;
  SegmentHeaderBytes header_ = {};
  int64_t offset_ = kSegmentHeaderBytes;
  int64_t rows_ = 0;
  int64_t blocks_ = 0;
  std::vector<uint8_t> window_;  // bytes around the headers, to read small blocks' at once
  int64_t window_offset_ = 0;
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_SEGMENT_READER_H_
