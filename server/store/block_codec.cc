#include "server/store/block_codec.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/little_endian.h"

namespace nearfield::store {
namespace {

// Writes the ends, then the bytes, of the `count` strings that `at` returns.
template <typename At>
std::vector<uint8_t> EncodeStrings(int64_t count, At at) {
  size_t bytes_count = 0;
  for (int64_t i = 0; i < count; ++i) bytes_count += at(i).size();
  std::vector<uint8_t> bytes(4 * static_cast<size_t>(count) + bytes_count);
  size_t end = 0;
  const size_t begin = 4 * static_cast<size_t>(count);
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view value = at(i);
    std::copy(value.begin(), value.end(), bytes.begin() + static_cast<int64_t>(begin + end));
    end += value.size();
    PutUint32(static_cast<uint32_t>(end), bytes.data() + 4 * i);
  }
  return bytes;
}

// Calls `append` for each of `count` strings.
template <typename Append>
absl::Status DecodeStrings(absl::Span<const uint8_t> bytes, int64_t count, Append append) {
  absl::Status bad = absl::DataLossError("a column of strings contradicts itself");
  const std::optional<int64_t> ends_bytes = CheckedMul(count, 4);
  if (!ends_bytes || *ends_bytes > static_cast<int64_t>(bytes.size())) return bad;
  const absl::Span<const uint8_t> values = bytes.subspan(static_cast<size_t>(*ends_bytes));
  size_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t end = GetUint32(bytes.data() + 4 * i);
    if (end < begin || end > values.size()) return bad;
    append(std::string_view(reinterpret_cast<const char*>(values.data()) + begin, end - begin));
    begin = end;
  }
  return begin == values.size() ? absl::OkStatus() : bad;
}

absl::Status CheckShape(const SegmentIdentity& identity, const StoredBlock& block) {
  if (block.ids == nullptr || block.ids->empty()) {
    return absl::InvalidArgumentError("block: has no ids; at least one row must come");
  }
  if (block.ids->type() != identity.id_type) {
    return absl::InvalidArgumentError("block: ids of another type than the collection's");
  }
  const int64_t rows = block.ids->size();
  const std::optional<int64_t> row_bytes = CheckedMul(rows, identity.row_bytes());
  if (!row_bytes || *row_bytes != static_cast<int64_t>(block.rows.size())) {
    return absl::InvalidArgumentError(absl::StrCat("block: ", rows, " ids, but ", block.rows.size(),
                                                   " bytes of rows of ", identity.row_bytes(),
                                                   " bytes each"));
  }
  for (const BytesColumn* values : {block.payloads, block.attributes}) {
    if (values != nullptr && values->size() != rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("block: ", rows, " ids, but ", values->size(), " values in a column"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// It is checked before the encoding, in 64 bits.
int64_t PlaneBytes(const StoredBlock& block) {
  const int64_t rows = block.ids->size();
  int64_t bytes = static_cast<int64_t>(block.rows.size()) + block.ids->bytes() + 8 * rows;
  for (const BytesColumn* values : {block.payloads, block.attributes}) {
    if (values != nullptr) bytes += values->value_bytes() + 4 * rows;
  }
  return bytes;
}

std::vector<uint8_t> EncodeIds(const IdColumn& ids) {
  if (ids.type() == IdType::kString) {
    return EncodeStrings(ids.size(), [&ids](int64_t i) { return ids.string(i); });
  }
  std::vector<uint8_t> bytes(8 * static_cast<size_t>(ids.size()));
  for (int64_t i = 0; i < ids.size(); ++i) PutUint64(ids.number(i), bytes.data() + 8 * i);
  return bytes;
}

absl::Status DecodeIds(absl::Span<const uint8_t> bytes, int64_t rows, IdColumn* ids) {
  if (ids->type() == IdType::kString) {
    return DecodeStrings(bytes, rows, [ids](std::string_view id) { ids->AppendString(id); });
  }
  if (CheckedMul(rows, 8) != static_cast<int64_t>(bytes.size())) {
    return absl::DataLossError("a column of ids contradicts itself");
  }
  ids->Reserve(ids->size() + rows);
  for (int64_t i = 0; i < rows; ++i) ids->AppendNumber(GetUint64(bytes.data() + 8 * i));
  return absl::OkStatus();
}

std::vector<uint8_t> EncodeValues(const BytesColumn* values) {
  if (values == nullptr || values->value_bytes() == 0) return {};
  return EncodeStrings(values->size(), [values](int64_t i) { return values->at(i); });
}

absl::Status DecodeValues(absl::Span<const uint8_t> bytes, int64_t rows, BytesColumn* values) {
  if (bytes.empty()) {
    for (int64_t i = 0; i < rows; ++i) values->Append({});
    return absl::OkStatus();
  }
  // A file may state any number of rows.
  if (rows > static_cast<int64_t>(bytes.size() / 4)) {
    return absl::DataLossError("a column of values contradicts itself");
  }
  values->Reserve(rows, static_cast<int64_t>(bytes.size()) - 4 * rows);
  return DecodeStrings(bytes, rows, [values](std::string_view value) { values->Append(value); });
}

absl::StatusOr<EncodedBlock> EncodeBlock(const SegmentIdentity& identity, int64_t first_row,
                                         const StoredBlock& block) {
  ABSL_RETURN_IF_ERROR(CheckShape(identity, block));
  if (const int64_t bytes = PlaneBytes(block); bytes > kBlockBytesMax - (int64_t{1} << 20)) {
    return absl::InvalidArgumentError(absl::StrCat("block: ", bytes, " bytes, must be at most ",
                                                   kBlockBytesMax - (int64_t{1} << 20)));
  }
  EncodedBlock encoded;
  encoded.ids = EncodeIds(*block.ids);
  encoded.vectors = block.rows;
  encoded.payloads = EncodeValues(block.payloads);
  encoded.attributes = EncodeValues(block.attributes);
  std::vector<uint32_t> checksums;
  const std::array<absl::Span<const uint8_t>, kPlanesCount> planes = {
      encoded.ids, encoded.vectors, encoded.payloads, encoded.attributes};
  for (size_t i = 0; i < planes.size(); ++i) {
    encoded.header.plane_bytes[i] = static_cast<int64_t>(planes[i].size());
    AppendPieceChecksums(planes[i], &checksums);
  }
  encoded.header.segment = identity.segment;
  encoded.header.number = block.number;
  encoded.header.first_row = first_row;
  encoded.header.rows = block.ids->size();
  encoded.head = EncodeBlockHead(encoded.header, checksums);
  return encoded;
}

absl::Status BadBytes(const std::string& path, int64_t block, int64_t begin, int64_t end,
                      absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": block ",
                                          block < 0 ? std::string("unknown") : absl::StrCat(block),
                                          ", bytes [", begin, ", ", end, "): ", what));
}

absl::Status CheckPlanes(const BlockHeader& header, int planes_count, const std::string& path,
                         int64_t offset, absl::Span<const uint8_t> bytes) {
  const absl::StatusOr<std::vector<uint32_t>> checksums =
      ParseBlockTable(bytes.subspan(0, kBlockHeaderBytes),
                      bytes.subspan(kBlockHeaderBytes, static_cast<size_t>(header.TableBytes())));
  if (!checksums.ok()) {
    return BadBytes(path, header.number, offset, offset + header.PlaneBegin(0),
                    checksums.status().message());
  }
  size_t piece = 0;
  for (int plane = 0; plane < planes_count; ++plane) {
    for (int64_t begin = header.PlaneBegin(plane); begin < header.PlaneEnd(plane);
         begin += kPieceBytes, ++piece) {
      const int64_t end = std::min(begin + kPieceBytes, header.PlaneEnd(plane));
      const auto covered =
          bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      if (Crc32c(covered) != (*checksums)[piece]) {
        return BadBytes(path, header.number, offset + begin, offset + end,
                        "differs from its checksum");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DecodedBlock> DecodeBlock(const SegmentIdentity& identity, const std::string& path,
                                         int64_t offset, absl::Span<uint8_t> bytes) {
  const absl::StatusOr<BlockHeader> parsed = ParseBlockHeader(bytes.subspan(0, kBlockHeaderBytes));
  if (!parsed.ok() || parsed->bytes() != static_cast<int64_t>(bytes.size())) {
    return BadBytes(path, -1, offset, offset + kBlockHeaderBytes, "the block header is damaged");
  }
  const BlockHeader& header = *parsed;
  ABSL_RETURN_IF_ERROR(CheckPlanes(header, kPlanesCount, path, offset, bytes));
  const auto plane = [&](int which) {
    return bytes.subspan(static_cast<size_t>(header.PlaneBegin(which)),
                         static_cast<size_t>(header.plane_bytes[static_cast<size_t>(which)]));
  };
  DecodedBlock block = {.header = header, .ids = IdColumn(identity.id_type)};
  absl::Status decoded = DecodeIds(plane(kIdPlane), header.rows, &block.ids);
  if (decoded.ok()) decoded = DecodeValues(plane(kPayloadPlane), header.rows, &block.payloads);
  if (decoded.ok()) decoded = DecodeValues(plane(kAttributePlane), header.rows, &block.attributes);
  block.rows = plane(kVectorPlane);
  if (decoded.ok() &&
      CheckedMul(header.rows, identity.row_bytes()) != static_cast<int64_t>(block.rows.size())) {
    decoded = absl::DataLossError("rows of another size than the collection's");
  }
  if (!decoded.ok()) {
    return BadBytes(path, header.number, offset, offset + header.bytes(), decoded.message());
  }
  return block;
}

}  // namespace nearfield::store
