// The bytes of a segment file: a header of 4 KiB, then blocks, each of a header, a table of
// checksums and four planes (ids, vectors, payloads, attributes). See DESIGN.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/types.h"

namespace nearfield::store {

inline constexpr int64_t kSegmentHeaderBytes = 4096;
inline constexpr int64_t kBlockHeaderBytes = 128;
inline constexpr int64_t kPieceBytes = int64_t{1} << 20;  // covered by one CRC32C
inline constexpr int64_t kPlaneAlignment = 64;            // of each plane in the file
inline constexpr int64_t kStoreIdBytes = 16;
inline constexpr int kPlanesCount = 4;
enum Plane : int { kIdPlane = 0, kVectorPlane = 1, kPayloadPlane = 2, kAttributePlane = 3 };

// Return the name of a segment's file, "0000000000000007.seg" for 7, and the segment of a name.
std::string SegmentFileName(int64_t segment);
std::optional<int64_t> SegmentOfFileName(std::string_view name);

// The identity of a segment, stored both in its file and in the catalog.
struct SegmentIdentity {
  std::string store;  // kStoreIdBytes, drawn when the store was made
  int64_t collection = 0;
  int64_t segment = 0;
  int32_t dim = 0;
  RowType row_type = RowType::kFloat32;
  IdType id_type = IdType::kUint64;

  int64_t row_bytes() const { return int64_t{dim} * BytesPerElement(row_type); }
};

// The stage of a segment file. A start reads it from files that the catalog does not name.
struct SegmentStage {
  // The file is complete and may be committed. Only sealed and synced segments are ever committed.
  bool sealed = true;
  // Durable commits of the catalog when the file was made. A catalog with fewer is older than
  // the file.
  int64_t commits = 0;
};

using SegmentHeaderBytes = std::array<uint8_t, kSegmentHeaderBytes>;
SegmentHeaderBytes EncodeSegmentHeader(const SegmentIdentity& identity, const SegmentStage& stage);
// Returns the header with its stage sealed, which the segment's digest covers.
SegmentHeaderBytes SealedHeader(const SegmentHeaderBytes& bytes);

// Checks the format. Errors: FailedPrecondition (an intact header of a newer format than this build
// reads: names both).
absl::Status CheckSegmentVersion(absl::Span<const uint8_t> bytes, const std::string& path);

// Checks a header; accepts any stage. `path` is for the message. Errors: DataLoss (damaged, or of
// another segment), FailedPrecondition (a newer format).
absl::Status CheckSegmentHeader(absl::Span<const uint8_t> bytes, const SegmentIdentity& identity,
                                const std::string& path);
// Parses an intact header. Returns nullopt if it is damaged or of a newer format.
struct SegmentInfo {
  std::string store;
  SegmentStage stage;
};
std::optional<SegmentInfo> ParseSegmentHeader(absl::Span<const uint8_t> bytes);

struct BlockHeader {
  int64_t segment = 0;
  int64_t number = 0;                                  // 0, 1, .. in its segment
  int64_t first_row = 0;                               // rows of the blocks before
  int64_t rows = 0;                                    // >= 1
  std::array<int64_t, kPlanesCount> plane_bytes = {};  // without padding

  int64_t PlaneBegin(int plane) const;  // offset from the start of the block
  int64_t PlaneEnd(int plane) const;    // including its padding
  int64_t PlanePieces(int plane) const;
  int64_t FirstPiece(int plane) const;  // its place in the table
  int64_t pieces() const { return FirstPiece(kPlanesCount); }
  int64_t TableBytes() const;                                 // padded
  int64_t bytes() const { return PlaneBegin(kPlanesCount); }  // of the whole block
};

// Returns the header and the table, which precede the planes. `checksums`: one for each piece.
std::vector<uint8_t> EncodeBlockHead(const BlockHeader& header,
                                     absl::Span<const uint32_t> checksums);

// Parses a block header of kBlockHeaderBytes. All sizes in the result are within kBlockBytesMax.
// Errors: DataLoss (without the file's name, which the caller knows).
absl::StatusOr<BlockHeader> ParseBlockHeader(absl::Span<const uint8_t> bytes);
// Parses and checks the table after a header. Errors: as ParseBlockHeader.
absl::StatusOr<std::vector<uint32_t>> ParseBlockTable(absl::Span<const uint8_t> header_bytes,
                                                      absl::Span<const uint8_t> table_bytes);

// Appends the checksums of the pieces of one plane, including its padding.
void AppendPieceChecksums(absl::Span<const uint8_t> plane, std::vector<uint32_t>* checksums);

}  // namespace nearfield::store
