#include "server/store/segment_format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/format.h"
#include "server/store/little_endian.h"
#include "server/store/stored_types.h"

namespace nearfield::store {
namespace {

constexpr std::string_view kSegmentMagic = "NFSEGMNT";
constexpr std::string_view kBlockMagic = "NFBLOCK\n";
constexpr std::string_view kSuffix = ".seg";
constexpr size_t kNameDigits = 16;
constexpr size_t kBlockTableChecksum = 120;  // offsets in a block header
constexpr size_t kBlockHeaderChecksum = 124;
constexpr size_t kBlockNumbersEnd = 8 + 8 * (5 + kPlanesCount);

bool Begins(absl::Span<const uint8_t> bytes, std::string_view magic) {
  return std::equal(magic.begin(), magic.end(), bytes.begin());
}

// Offsets in a segment's header, and the values of its stage.
constexpr size_t kVersionAt = 8;
constexpr size_t kStageAt = 50;
constexpr size_t kCommitsAt = 56;
constexpr uint8_t kOpenStage = 1;
constexpr uint8_t kSealedStage = 2;

// Returns the checksum of a header as if its stage were sealed. So sealing changes only one byte of
// a header that durable blocks may need, and a power loss cannot tear one byte.
uint32_t HeaderChecksum(absl::Span<const uint8_t> bytes) {
  const uint8_t sealed =
      bytes[kStageAt] == kOpenStage ? kSealedStage : static_cast<uint8_t>(bytes[kStageAt]);
  uint32_t sum = Crc32c(bytes.subspan(0, kStageAt));
  sum = Crc32c(absl::MakeConstSpan(&sealed, 1), sum);
  return Crc32c(bytes.subspan(kStageAt + 1, kSegmentHeaderBytes - 4 - kStageAt - 1), sum);
}

void PutHeaderChecksum(SegmentHeaderBytes* bytes) {
  PutUint32(HeaderChecksum(*bytes), bytes->data() + kSegmentHeaderBytes - 4);
}

bool HeaderIntact(absl::Span<const uint8_t> bytes) {
  return bytes.size() == kSegmentHeaderBytes && Begins(bytes, kSegmentMagic) &&
         HeaderChecksum(bytes) == GetUint32(bytes.data() + kSegmentHeaderBytes - 4);
}

}  // namespace

// Not absl::StrFormat, which ends the process if memory runs out.
std::string SegmentFileName(int64_t segment) {
  const std::string digits = std::to_string(segment);
  const size_t zeros = kNameDigits - std::min(digits.size(), size_t{kNameDigits});
  return std::string(zeros, '0').append(digits).append(kSuffix);
}

std::optional<int64_t> SegmentOfFileName(std::string_view name) {
  if (name.size() != kNameDigits + kSuffix.size() || name.substr(kNameDigits) != kSuffix) {
    return std::nullopt;
  }
  int64_t segment = 0;
  for (const char c : name.substr(0, kNameDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    segment = segment * 10 + (c - '0');
  }
  return segment;
}

SegmentHeaderBytes EncodeSegmentHeader(const SegmentIdentity& identity, const SegmentStage& stage) {
  SegmentHeaderBytes bytes = {};
  std::copy(kSegmentMagic.begin(), kSegmentMagic.end(), bytes.begin());
  PutUint32(static_cast<uint32_t>(kSegmentFormat.written), bytes.data() + kVersionAt);
  PutUint32(static_cast<uint32_t>(identity.dim), bytes.data() + 12);
  std::copy_n(identity.store.begin(),
              std::min(identity.store.size(), static_cast<size_t>(kStoreIdBytes)),
              bytes.begin() + 16);
  PutUint64(static_cast<uint64_t>(identity.collection), bytes.data() + 32);
  PutUint64(static_cast<uint64_t>(identity.segment), bytes.data() + 40);
  bytes[48] = static_cast<uint8_t>(identity.row_type);
  bytes[49] = static_cast<uint8_t>(identity.id_type);
  bytes[kStageAt] = stage.sealed ? kSealedStage : kOpenStage;
  PutUint64(static_cast<uint64_t>(stage.commits), bytes.data() + kCommitsAt);
  PutHeaderChecksum(&bytes);
  return bytes;
}

SegmentHeaderBytes SealedHeader(const SegmentHeaderBytes& bytes) {
  SegmentHeaderBytes sealed = bytes;
  if (sealed[kStageAt] == kOpenStage) sealed[kStageAt] = kSealedStage;
  return sealed;
}

absl::Status CheckSegmentVersion(absl::Span<const uint8_t> bytes, const std::string& path) {
  if (!HeaderIntact(bytes)) return absl::OkStatus();
  return CheckReadable(kSegmentFormat, GetUint32(bytes.data() + kVersionAt), path);
}

absl::Status CheckSegmentHeader(absl::Span<const uint8_t> bytes, const SegmentIdentity& identity,
                                const std::string& path) {
  if (!HeaderIntact(bytes)) {
    return absl::DataLossError(absl::StrCat(path, ": the header is damaged (bytes [0, 4096))"));
  }
  ABSL_RETURN_IF_ERROR(CheckSegmentVersion(bytes, path));
  const uint32_t version = GetUint32(bytes.data() + kVersionAt);
  const std::optional<SegmentInfo> info = ParseSegmentHeader(bytes);
  SegmentHeaderBytes expected = {};
  if (info.has_value()) expected = EncodeSegmentHeader(identity, info->stage);
  if (version == 1) {  // has no stage
    PutUint32(1, expected.data() + kVersionAt);
    expected[kStageAt] = 0;
    PutHeaderChecksum(&expected);
  }
  if (!std::equal(expected.begin(), expected.end(), bytes.begin())) {
    return absl::DataLossError(absl::StrCat(path, ": is not segment ", identity.segment,
                                            " of collection ", identity.collection,
                                            " of this store: a file of another place"));
  }
  return absl::OkStatus();
}

std::optional<SegmentInfo> ParseSegmentHeader(absl::Span<const uint8_t> bytes) {
  if (!HeaderIntact(bytes) || !CheckSegmentVersion(bytes, "").ok()) return std::nullopt;
  return SegmentInfo{
      .store = std::string(bytes.begin() + 16, bytes.begin() + 16 + kStoreIdBytes),
      .stage = {.sealed = bytes[kStageAt] != kOpenStage,
                .commits = static_cast<int64_t>(GetUint64(bytes.data() + kCommitsAt))}};
}

int64_t BlockHeader::PlanePieces(int plane) const {
  const int64_t padded = RoundUp(plane_bytes[static_cast<size_t>(plane)], kPlaneAlignment);
  return CeilDiv(padded, kPieceBytes);
}

int64_t BlockHeader::FirstPiece(int plane) const {
  int64_t first = 0;
  for (int before = 0; before < plane; ++before) first += PlanePieces(before);
  return first;
}

int64_t BlockHeader::TableBytes() const { return RoundUp(4 * pieces(), kPlaneAlignment); }

int64_t BlockHeader::PlaneBegin(int plane) const {
  int64_t begin = kBlockHeaderBytes + TableBytes();
  for (int before = 0; before < plane; ++before) {
    begin += RoundUp(plane_bytes[static_cast<size_t>(before)], kPlaneAlignment);
  }
  return begin;
}

int64_t BlockHeader::PlaneEnd(int plane) const { return PlaneBegin(plane + 1); }

std::vector<uint8_t> EncodeBlockHead(const BlockHeader& header,
                                     absl::Span<const uint32_t> checksums) {
  std::vector<uint8_t> bytes(static_cast<size_t>(kBlockHeaderBytes + header.TableBytes()));
  std::copy(kBlockMagic.begin(), kBlockMagic.end(), bytes.begin());
  uint8_t* at = bytes.data() + kBlockMagic.size();
  for (const int64_t number :
       {header.segment, header.number, header.first_row, header.rows, header.plane_bytes[0],
        header.plane_bytes[1], header.plane_bytes[2], header.plane_bytes[3], header.bytes()}) {
    PutUint64(static_cast<uint64_t>(number), at);
    at += 8;
  }
  const auto table = absl::MakeSpan(bytes).subspan(kBlockHeaderBytes);
  for (size_t i = 0; i < checksums.size(); ++i) PutUint32(checksums[i], table.data() + 4 * i);
  PutUint32(Crc32c(table), bytes.data() + kBlockTableChecksum);
  PutUint32(Crc32c(absl::MakeConstSpan(bytes.data(), kBlockHeaderChecksum)),
            bytes.data() + kBlockHeaderChecksum);
  return bytes;
}

absl::StatusOr<BlockHeader> ParseBlockHeader(absl::Span<const uint8_t> bytes) {
  if (bytes.size() != kBlockHeaderBytes || !Begins(bytes, kBlockMagic) ||
      Crc32c(bytes.subspan(0, kBlockHeaderChecksum)) !=
          GetUint32(bytes.data() + kBlockHeaderChecksum)) {
    return absl::DataLossError("the block header is damaged");
  }
  std::array<int64_t, 5 + kPlanesCount> numbers = {};
  bool in_range = true;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t number = GetUint64(bytes.data() + kBlockMagic.size() + 8 * i);
    in_range = in_range && number <= static_cast<uint64_t>(INT64_MAX);
    numbers[i] = static_cast<int64_t>(number & INT64_MAX);
  }
  BlockHeader header = {.segment = numbers[0],
                        .number = numbers[1],
                        .first_row = numbers[2],
                        .rows = numbers[3],
                        .plane_bytes = {numbers[4], numbers[5], numbers[6], numbers[7]}};
  for (const int64_t plane : header.plane_bytes) in_range = in_range && plane <= kBlockBytesMax;
  if (!in_range || header.rows < 1 || header.bytes() != numbers[8] ||
      std::any_of(bytes.begin() + kBlockNumbersEnd, bytes.begin() + kBlockTableChecksum,
                  [](uint8_t byte) { return byte != 0; })) {
    return absl::DataLossError("the block header contradicts itself");
  }
  return header;
}

absl::StatusOr<std::vector<uint32_t>> ParseBlockTable(absl::Span<const uint8_t> header_bytes,
                                                      absl::Span<const uint8_t> table_bytes) {
  ABSL_ASSIGN_OR_RETURN(const BlockHeader header, ParseBlockHeader(header_bytes));
  if (table_bytes.size() != static_cast<size_t>(header.TableBytes()) ||
      Crc32c(table_bytes) != GetUint32(header_bytes.data() + kBlockTableChecksum)) {
    return absl::DataLossError("the block's table of checksums is damaged");
  }
  std::vector<uint32_t> checksums(static_cast<size_t>(header.pieces()));
  for (size_t i = 0; i < checksums.size(); ++i) {
    checksums[i] = GetUint32(table_bytes.data() + 4 * i);
  }
  return checksums;
}

void AppendPieceChecksums(absl::Span<const uint8_t> plane, std::vector<uint32_t>* checksums) {
  constexpr std::array<uint8_t, kPlaneAlignment> kZeros = {};
  const size_t padding =
      static_cast<size_t>(RoundUp(static_cast<int64_t>(plane.size()), kPlaneAlignment)) -
      plane.size();
  while (!plane.empty()) {
    const size_t size = std::min(plane.size(), static_cast<size_t>(kPieceBytes));
    checksums->push_back(Crc32c(plane.subspan(0, size)));
    plane.remove_prefix(size);
  }
  // A piece is a multiple of the alignment, so the padding always belongs to the last piece.
  if (padding > 0) {
    checksums->back() = Crc32c(absl::MakeConstSpan(kZeros).subspan(0, padding), checksums->back());
  }
}

}  // namespace nearfield::store
