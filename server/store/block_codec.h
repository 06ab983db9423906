// Encodes rows as the planes of a block, and decodes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/id_column.h"
#include "server/store/segment_format.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// Encodes a column of ids. Numbers: 8 bytes each. Strings: 4-byte ends, then the bytes.
std::vector<uint8_t> EncodeIds(const IdColumn& ids);
// Appends `rows` ids to `ids`. Errors: DataLoss (the bytes are not such a column).
absl::Status DecodeIds(absl::Span<const uint8_t> bytes, int64_t rows, IdColumn* ids);

// Encode and decode values like string ids. The result is empty if every value is empty.
std::vector<uint8_t> EncodeValues(const BytesColumn* values);
absl::Status DecodeValues(absl::Span<const uint8_t> bytes, int64_t rows, BytesColumn* values);

// A block that is ready to be written. The vectors are not copied.
struct EncodedBlock {
  BlockHeader header;
  std::vector<uint8_t> head;  // header and table
  std::vector<uint8_t> ids;
  absl::Span<const uint8_t> vectors;
  std::vector<uint8_t> payloads;
  std::vector<uint8_t> attributes;
};

// Returns the maximum bytes of the block's planes.
int64_t PlaneBytes(const StoredBlock& block);

// Encodes a block. Errors: InvalidArgument (columns of different lengths, another id type, more
// than kBlockBytesMax).
absl::StatusOr<EncodedBlock> EncodeBlock(const SegmentIdentity& identity, int64_t first_row,
                                         const StoredBlock& block);

// A block that was read and verified. `rows` points into bytes that the reader holds.
struct DecodedBlock {
  BlockHeader header;
  IdColumn ids;
  absl::Span<uint8_t> rows;
  BytesColumn payloads;
  BytesColumn attributes;

  StoredBlock View(int64_t number) const {
    return {.number = number,
            .ids = &ids,
            .rows = rows,
            .payloads = &payloads,
            .attributes = &attributes};
  }
};

// Verifies the planes [0, planes_count) of a block. `bytes`: the block, at least up to the end of
// these planes. `offset`: its position in the file. Errors: DataLoss (names the bytes of the file
// that differ from their checksum).
absl::Status CheckPlanes(const BlockHeader& header, int planes_count, const std::string& path,
                         int64_t offset, absl::Span<const uint8_t> bytes);

// Verifies and decodes a block. `bytes`: the whole block. `offset`: its position in the file.
// Errors: DataLoss (names the bytes of the file that differ from their checksum).
absl::StatusOr<DecodedBlock> DecodeBlock(const SegmentIdentity& identity, const std::string& path,
                                         int64_t offset, absl::Span<uint8_t> bytes);

// Returns DataLoss: "PATH: block 3, bytes [4096, 8192): WHAT". Block -1: the block is not known.
absl::Status BadBytes(const std::string& path, int64_t block, int64_t begin, int64_t end,
                      absl::string_view what);

}  // namespace nearfield::store
