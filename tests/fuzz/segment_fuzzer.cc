// Takes arbitrary bytes as the parts of a data directory's files: columns, blocks, headers, the
// manifest of a snapshot, a row of the catalog, a patch record. Also edits a valid segment and
// makes its checksums right again, so that the checks after them are reached. Whatever is accepted
// must be exactly what the encoder writes for the values; whatever is refused must be DATA_LOSS or
// a newer format.
#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "server/store/block_codec.h"
#include "server/store/catalog_rows.h"
#include "server/store/checksum.h"
#include "server/store/deleted_ids.h"
#include "server/store/file.h"
#include "server/store/high_water.h"
#include "server/store/little_endian.h"
#include "server/store/manifest.h"
#include "server/store/row_patches.h"
#include "server/store/segment_format.h"
#include "server/store/segment_reader.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_folder.h"

namespace nearfield::store {
namespace {

using fuzz::InputReader;
using Bytes = std::vector<uint8_t>;

absl::Span<const uint8_t> SpanOf(std::string_view bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}
std::string StringOf(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

void RequireRefused(const absl::Status& status) {
  Require(absl::IsDataLoss(status) || absl::IsFailedPrecondition(status));
  Require(!status.message().empty());
}

// Reads a number of rows that may be as large as a file can say.
int64_t TakeRows(InputReader& input) {
  const uint64_t kind = input.Take(1);
  return static_cast<int64_t>((kind < 200 ? kind % 8 : input.Take(8)) & INT64_MAX);
}

void ReadColumns(InputReader& input) {
  const int64_t rows = TakeRows(input);
  const IdType type = input.Take(1) % 2 == 0 ? IdType::kUint64 : IdType::kString;
  const auto bytes = SpanOf(input.TakeRest());
  IdColumn ids(type);
  if (const absl::Status status = DecodeIds(bytes, rows, &ids); status.ok()) {
    Require(ids.size() == rows && absl::MakeConstSpan(EncodeIds(ids)) == bytes);
    DeletedIds deleted(type);
    Require(deleted.Add({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, rows, 1).ok());
  } else {
    RequireRefused(status);
  }
  // A block has as many rows of at least two bytes as values, so a column without bytes is short.
  if (bytes.empty() && rows > 1024) return;
  BytesColumn values;
  if (const absl::Status status = DecodeValues(bytes, rows, &values); status.ok()) {
    Require(values.size() == rows);
    Require(values.value_bytes() == 0 || absl::MakeConstSpan(EncodeValues(&values)) == bytes);
  } else {
    RequireRefused(status);
  }
}

// Returns a record of two rows: one with new attributes, one with a new payload, too.
std::string ValidPatches(IdType type) {
  IdColumn ids(type);
  for (const uint64_t id : {5, 6}) {
    type == IdType::kUint64 ? ids.AppendNumber(id) : ids.AppendString("id" + std::to_string(id));
  }
  PatchRecord record(type);
  record.Append(ids, 0, {.attributes_seq = 3, .attributes = "attributes"});
  record.Append(ids, 1, {.attributes_seq = 4, .payload_seq = 4, .payload = "payload"});
  return record.Encode();
}

void ReadPatches(InputReader& input) {
  const IdType type = input.Take(1) % 2 == 0 ? IdType::kUint64 : IdType::kString;
  std::string bytes = ValidPatches(type);
  int64_t rows = 2;
  if (input.Take(1) % 4 == 0) {
    rows = TakeRows(input);
    bytes = input.TakeRest();
  } else {
    input.Edit(&bytes);
  }
  const auto record = PatchRecord::Decode(type, bytes, rows);
  if (!record.ok()) return RequireRefused(record.status());
  Require(record->rows_count() == rows);
  const std::string encoded = record->Encode();
  Require(std::ssize(encoded) <= record->bytes());
  // A column of empty values has two encodings, of which Encode writes the shorter one.
  Require(encoded == bytes || encoded.size() < bytes.size());
  const auto again = PatchRecord::Decode(type, encoded, rows);
  Require(again.ok() && again->Encode() == encoded);
  RowPatches patches(type);
  patches.Add(*record);
  Require(patches.size() >= 1 && patches.size() <= rows);
  Require(patches.Ids().size() == patches.size());
}

SegmentIdentity Identity(IdType id_type) {
  return {.store = std::string(kStoreIdBytes, 's'),
          .collection = 3,
          .segment = 7,
          .dim = 2,
          .row_type = RowType::kFloat32,
          .id_type = id_type};
}

// Returns a segment of two blocks.
std::string ValidSegment(const SegmentIdentity& identity) {
  const SegmentHeaderBytes header = EncodeSegmentHeader(identity, {.sealed = true, .commits = 5});
  std::string file(header.begin(), header.end());
  int64_t first_row = 0;
  for (int64_t number = 0; number < 2; ++number) {
    const int64_t rows = 2 + number;
    IdColumn ids(identity.id_type);
    BytesColumn payloads;
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      if (identity.id_type == IdType::kString) {
        ids.AppendString("id" + std::to_string(row));
      } else {
        ids.AppendNumber(static_cast<uint64_t>(row));
      }
      payloads.Append(number == 0 ? "payload" : "");
    }
    const Bytes vectors(static_cast<size_t>(rows * identity.row_bytes()), 1);
    const auto block =
        EncodeBlock(identity, first_row,
                    {.number = number, .ids = &ids, .rows = vectors, .payloads = &payloads});
    Require(block.ok());
    file += StringOf(block->head);
    for (const absl::Span<const uint8_t> plane :
         {absl::MakeConstSpan(block->ids), block->vectors, absl::MakeConstSpan(block->payloads)}) {
      file += StringOf(plane);
      file.resize((file.size() + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment);
    }
    first_row += rows;
  }
  return file;
}

uint8_t* At(std::string* bytes, size_t at) {
  return reinterpret_cast<uint8_t*>(bytes->data()) + at;
}

// Makes the checksums of those parts of a block at `at` right that the file has. Returns the end
// of the block that its header states, or the end of the file.
size_t RepairBlock(size_t at, std::string* file) {
  constexpr size_t kTableChecksum = 120;
  constexpr size_t kHeaderChecksum = 124;
  const auto repair_header = [&] {
    PutUint32(Crc32c({At(file, at), kHeaderChecksum}), At(file, at + kHeaderChecksum));
  };
  if (file->size() - at < static_cast<size_t>(kBlockHeaderBytes)) return file->size();
  repair_header();
  const auto header = ParseBlockHeader({At(file, at), static_cast<size_t>(kBlockHeaderBytes)});
  if (!header.ok() || header->bytes() > static_cast<int64_t>(file->size() - at)) {
    return file->size();
  }
  std::vector<uint32_t> checksums;
  for (int plane = 0; plane < kPlanesCount; ++plane) {
    const auto begin = static_cast<size_t>(header->PlaneBegin(plane));
    AppendPieceChecksums(
        {At(file, at + begin), static_cast<size_t>(header->PlaneEnd(plane)) - begin}, &checksums);
  }
  for (size_t i = 0; i < checksums.size(); ++i) {
    PutUint32(checksums[i], At(file, at + kBlockHeaderBytes + 4 * i));
  }
  PutUint32(Crc32c({At(file, at + kBlockHeaderBytes), static_cast<size_t>(header->TableBytes())}),
            At(file, at + kTableChecksum));
  repair_header();
  return at + static_cast<size_t>(header->bytes());
}

// Reads a segment as a load does, and its ids as a compaction does. Every block that is accepted
// must be encoded to the same bytes.
void ReadSegment(const Directory& directory, const SegmentIdentity& identity, int64_t bytes) {
  auto reader = SegmentReader::Open(directory, identity, bytes, /*may_be_longer=*/false);
  if (!reader.ok()) return RequireRefused(reader.status());
  while (!reader->AtEnd()) {
    const auto places = reader->NextBlocks(/*bytes_max=*/512);
    if (!places.ok()) return RequireRefused(places.status());
    for (const BlockPlace& place : *places) {
      const auto ids = reader->ReadIds(place);
      if (!ids.ok()) RequireRefused(ids.status());
      Bytes block_bytes(static_cast<size_t>(place.header.bytes()));
      Require(reader->Read({&place, 1}, absl::MakeSpan(block_bytes)).ok());
      const auto block =
          DecodeBlock(identity, reader->path(), place.offset, absl::MakeSpan(block_bytes));
      if (!block.ok()) return RequireRefused(block.status());
      Require(ids.ok() && EncodeIds(*ids) == EncodeIds(block->ids));
      const auto again =
          EncodeBlock(identity, place.header.first_row, block->View(place.header.number));
      Require(again.ok() && again->header.rows == place.header.rows);
      Require(again->ids.size() == static_cast<size_t>(place.header.plane_bytes[kIdPlane]));
    }
  }
}

void ReadEditedSegment(InputReader& input) {
  static const fuzz::ScratchFolder folder;
  static const auto directory = Directory::OpenOrMake(folder / "segments");
  const SegmentIdentity identity =
      Identity(input.Take(1) % 2 == 0 ? IdType::kUint64 : IdType::kString);
  std::string file = ValidSegment(identity);
  const bool repair = input.Take(1) % 4 != 0;
  input.Edit(&file);
  if (repair && file.size() > static_cast<size_t>(kSegmentHeaderBytes)) {
    for (auto at = static_cast<size_t>(kSegmentHeaderBytes); at < file.size();) {
      at = RepairBlock(at, &file);
    }
  }
  folder.Write("segments/" + SegmentFileName(identity.segment), file);
  ReadSegment(**directory, identity, std::ssize(file));
}

void ReadHeaders(std::string_view bytes) {
  const auto span = SpanOf(bytes);
  static_cast<void>(ParseSegmentHeader(span));
  const absl::Status header = CheckSegmentHeader(span, Identity(IdType::kUint64), "file");
  if (!header.ok()) RequireRefused(header);
  if (const auto block = ParseBlockHeader(span); !block.ok()) RequireRefused(block.status());
  if (span.size() > static_cast<size_t>(kBlockHeaderBytes)) {
    const auto table =
        ParseBlockTable(span.subspan(0, kBlockHeaderBytes), span.subspan(kBlockHeaderBytes));
    if (!table.ok()) RequireRefused(table.status());
  }
  if (const auto segment = SegmentOfFileName(bytes)) {
    Require(SegmentFileName(*segment) == bytes);
  }
}

void ReadManifest(InputReader& input) {
  std::string text = EncodeManifest({.owner = "someone",
                                     .files = {{"catalog.db", 4096, std::string(64, 'a')},
                                               {SegmentFileName(7), 8192, std::string(64, 'b')}}});
  if (input.Take(1) % 2 == 0) {
    input.Edit(&text);
  } else {
    text = input.TakeRest();
  }
  // The last line is the digest of all others: make it right.
  if (const size_t last = text.rfind("\nsha256 "); last != std::string::npos) {
    const std::string rest = text.substr(0, last + 1);
    text = rest + "sha256 " + DigestHex(Sha256().Add(rest).Value()) + "\n";
  }
  const auto manifest = ParseManifest(text, "MANIFEST");
  if (!manifest.ok()) return RequireRefused(manifest.status());
  Require(manifest->owner.find('\n') == std::string::npos);
  for (const ManifestFile& file : manifest->files) {
    Require(file.bytes >= 0 && file.name.find('/') == std::string::npos);
  }
}

template <typename Row>
void ReadRow(absl::Span<const Value> values) {
  const auto row = RowFrom<Row>(values);
  if (!row.ok()) return RequireRefused(row.status());
  static_cast<void>(RowDigest(Row::kTable, ValuesOf(*row)));
  if constexpr (std::is_same_v<Row, SegmentRow>) static_cast<void>(row->SupersededRows());
}

void ReadCatalogRow(InputReader& input) {
  const uint64_t table = input.Take(1) % 9;
  std::vector<Value> values;
  while (!input.empty() && values.size() < 16) {
    if (input.Take(1) % 4 == 0) {
      values.emplace_back(std::string(input.TakeBytes(40)));
    } else {
      values.emplace_back(TakeRows(input) * (input.Take(1) % 8 == 0 ? -1 : 1));
    }
  }
  switch (table) {
    case 0: return ReadRow<CollectionRow>(values);
    case 1: return ReadRow<AliasRow>(values);
    case 2: return ReadRow<SegmentRow>(values);
    case 3: return ReadRow<DeletionRow>(values);
    case 4: return ReadRow<UploadRow>(values);
    case 5: return ReadRow<UploadResultRow>(values);
    case 6: return ReadRow<PatchRow>(values);
    case 7: return ReadRow<UpdateTokenRow>(values);
    default: return ReadRow<CommitRow>(values);
  }
}

void ReadHighWater(std::string_view bytes) {
  static const fuzz::ScratchFolder folder;
  static const auto directory = Directory::OpenOrMake(folder / "mark");
  folder.Write(std::string("mark/") + kHighWaterName, bytes);
  const auto mark = HighWater::Open(**directory);
  Require(mark.ok() && *mark != nullptr && (*mark)->commits() >= 0);
}

void Run(std::string_view bytes) {
  InputReader input(bytes);
  switch (input.Take(1) % 8) {
    case 0: return ReadColumns(input);
    case 1: return ReadHeaders(input.TakeRest());
    case 2: return ReadManifest(input);
    case 3: return ReadCatalogRow(input);
    case 4: return ReadHighWater(input.TakeRest());
    case 5: return ReadPatches(input);
    default: return ReadEditedSegment(input);
  }
}

}  // namespace
}  // namespace nearfield::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::store::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
