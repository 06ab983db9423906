// SegmentReader: reads a segment: the places of its blocks, only their ids, or whole blocks.
#pragma once

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

// Iterates over the blocks of one segment in order. Errors of every call: DataLoss (names file,
// block and bytes), NotFound (no such file), else an I/O error.
class SegmentReader {
 public:
  // Opens the file, and checks its header and its size: exactly `bytes`, or at least `bytes` if
  // `may_be_longer`.
  static absl::StatusOr<SegmentReader> Open(const Directory& directory,
                                            const SegmentIdentity& identity, int64_t bytes,
                                            bool may_be_longer);

  const SegmentIdentity& identity() const { return identity_; }
  const std::string& path() const { return file_.path(); }
  // Returns the header as the digest covers it: sealed, even if the upload is still open.
  const SegmentHeaderBytes& header() const { return header_; }

  // Return whether all blocks were passed, and the number of rows and blocks passed so far.
  bool AtEnd() const { return offset_ >= bytes_; }
  int64_t rows() const { return rows_; }
  int64_t blocks() const { return blocks_; }

  // Passes and returns the next block, and further ones while they fit into `bytes_max` together.
  absl::StatusOr<std::vector<BlockPlace>> NextBlocks(int64_t bytes_max);
  // Reads consecutive blocks into `bytes`, which has exactly their size. Thread-safe.
  absl::Status Read(absl::Span<const BlockPlace> places, absl::Span<uint8_t> bytes) const;
  // Reads and verifies only the ids of a block. Thread-safe.
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
  std::vector<uint8_t> window_;  // bytes around the headers, read for several small blocks
  int64_t window_offset_ = 0;
};

}  // namespace nearfield::store
