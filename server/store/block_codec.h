// Rows to the planes of a block, and back.
#ifndef NEARFIELD_SERVER_STORE_BLOCK_CODEC_H_
#define NEARFIELD_SERVER_STORE_BLOCK_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
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

// Numbers: 8 bytes each. Strings: the end of each as 4 bytes, then their bytes.
std::vector<uint8_t> EncodeIds(const IdColumn& ids);
// Appends `rows` ids. Errors: DataLoss where the bytes are no such column.
absl::Status DecodeIds(absl::Span<const uint8_t> bytes, int64_t rows, IdColumn* ids);

// As strings; nothing at all where every value is empty.
std::vector<uint8_t> EncodeValues(const BytesColumn* values);
absl::Status DecodeValues(absl::Span<const uint8_t> bytes, int64_t rows, BytesColumn* values);

// A block ready to be written: the vectors stay where they are.
struct EncodedBlock {
  BlockHeader header;
  std::vector<uint8_t> head;  // header and table
  std::vector<uint8_t> ids;
  absl::Span<const uint8_t> vectors;
  std::vector<uint8_t> payloads;
  std::vector<uint8_t> attributes;
};

// Errors: InvalidArgument (columns of different lengths, another id type, a block beyond
// kBlockBytesMax).
absl::StatusOr<EncodedBlock> EncodeBlock(const SegmentIdentity& identity, int64_t first_row,
                                         const StoredBlock& block);

// A block read and verified. `rows` lies in bytes held by the reader.
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

// `bytes`: the whole block. Errors: DataLoss naming the bytes of the file (`offset` on) that differ
// from their checksum.
absl::StatusOr<DecodedBlock> DecodeBlock(const SegmentIdentity& identity, std::string_view path,
                                         int64_t offset, absl::Span<uint8_t> bytes);

// "PATH: block 3, bytes [4096, 8192): WHAT" as DataLoss; block -1: not known.
absl::Status BadBytes(std::string_view path, int64_t block, int64_t begin, int64_t end,
                      absl::string_view what);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_BLOCK_CODEC_H_
