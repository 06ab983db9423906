// Tests headers and blocks: they are read as written, and every changed byte is detected.
#include "server/store/segment_format.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/store/block_codec.h"
#include "server/store/checksum.h"
#include "server/store/little_endian.h"
#include "tests/fault/crash_model.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

const SegmentIdentity kIdentity = {.store = std::string(16, 's'),
                                   .collection = 3,
                                   .segment = 7,
                                   .dim = 5,
                                   .row_type = RowType::kFloat16,
                                   .id_type = IdType::kString};

TEST(SegmentFormatTest, FileNamesAreNumbers) {
  EXPECT_EQ(SegmentFileName(7), "0000000000000007.seg");
  EXPECT_EQ(SegmentOfFileName("0000000000000007.seg"), 7);
  for (const char* const name : {"7.seg", "000000000000000a.seg", "0000000000000007.sex", "",
                                 "0000000000000007.seg ", "-000000000000007.seg"}) {
    EXPECT_FALSE(SegmentOfFileName(name).has_value()) << name;
  }
}

TEST(SegmentFormatTest, EveryByteOfAHeaderCounts) {
  const SegmentHeaderBytes bytes = EncodeSegmentHeader(kIdentity, {.sealed = true, .commits = 5});
  EXPECT_OK(CheckSegmentHeader(bytes, kIdentity, "p"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    SegmentHeaderBytes changed = bytes;
    changed[i] ^= 4;
    EXPECT_THAT(CheckSegmentHeader(changed, kIdentity, "p"), StatusIs(kDataLoss)) << i;
  }
}

TEST(SegmentFormatTest, AStageIsReadBackAndSealedOnce) {
  const SegmentHeaderBytes open = EncodeSegmentHeader(kIdentity, {.sealed = false, .commits = 9});
  const SegmentHeaderBytes sealed = EncodeSegmentHeader(kIdentity, {.sealed = true, .commits = 9});
  EXPECT_OK(CheckSegmentHeader(open, kIdentity, "p"));
  ASSERT_TRUE(ParseSegmentHeader(open).has_value());
  EXPECT_FALSE(ParseSegmentHeader(open)->stage.sealed);
  EXPECT_EQ(ParseSegmentHeader(open)->stage.commits, 9);
  EXPECT_EQ(ParseSegmentHeader(open)->store, kIdentity.store);
  EXPECT_TRUE(ParseSegmentHeader(sealed)->stage.sealed);
  EXPECT_TRUE(SealedHeader(open) == sealed);
  // Sealing changes one byte, which a power loss cannot tear.
  int64_t changed = 0;
  for (size_t i = 0; i < open.size(); ++i) changed += open[i] != sealed[i] ? 1 : 0;
  EXPECT_EQ(changed, 1);
  EXPECT_TRUE(SealedHeader(sealed) == sealed);
}

// Segments of the format without a stage are read, and are treated as sealed.
TEST(SegmentFormatTest, AHeaderOfFormat1IsRead) {
  SegmentHeaderBytes bytes = EncodeSegmentHeader(kIdentity, {});
  bytes[8] = 1;
  bytes[50] = 0;
  PutUint32(Crc32c(absl::MakeConstSpan(bytes.data(), bytes.size() - 4)),
            bytes.data() + bytes.size() - 4);
  EXPECT_OK(CheckSegmentHeader(bytes, kIdentity, "p"));
  EXPECT_TRUE(SealedHeader(bytes) == bytes);
  ASSERT_TRUE(ParseSegmentHeader(bytes).has_value());
  EXPECT_TRUE(ParseSegmentHeader(bytes)->stage.sealed);
  SegmentIdentity other = kIdentity;
  other.dim = 6;
  EXPECT_THAT(CheckSegmentHeader(bytes, other, "p"), StatusIs(kDataLoss));
}

TEST(SegmentFormatTest, AHeaderOfAnotherPlaceIsRefused) {
  const SegmentHeaderBytes bytes = EncodeSegmentHeader(kIdentity, {});
  SegmentIdentity other = kIdentity;
  other.segment = 8;
  EXPECT_THAT(CheckSegmentHeader(bytes, other, "p"), StatusIs(kDataLoss));
  other = kIdentity;
  other.store[0] = 'x';
  EXPECT_THAT(CheckSegmentHeader(bytes, other, "p"), StatusIs(kDataLoss));
}

TEST(SegmentFormatTest, ANewerFormatIsRefusedWithBothVersions) {
  SegmentHeaderBytes bytes = EncodeSegmentHeader(kIdentity, {});
  bytes[8] = 9;
  PutUint32(Crc32c(absl::MakeConstSpan(bytes.data(), bytes.size() - 4)),
            bytes.data() + bytes.size() - 4);
  EXPECT_THAT(CheckSegmentHeader(bytes, kIdentity, "p"),
              FailsWith(kFailedPrecondition, "segment format 9", "formats 1 .. 2"));
}

// Returns the bytes of a block as in the file.
std::vector<uint8_t> Written(const EncodedBlock& encoded) {
  std::vector<uint8_t> bytes(static_cast<size_t>(encoded.header.bytes()));
  const auto put = [&bytes](int64_t at, absl::Span<const uint8_t> part) {
    std::copy(part.begin(), part.end(), bytes.begin() + at);
  };
  put(0, encoded.head);
  put(encoded.header.PlaneBegin(kIdPlane), encoded.ids);
  put(encoded.header.PlaneBegin(kVectorPlane), encoded.vectors);
  put(encoded.header.PlaneBegin(kPayloadPlane), encoded.payloads);
  put(encoded.header.PlaneBegin(kAttributePlane), encoded.attributes);
  return bytes;
}

TEST(BlockCodecTest, WhatIsEncodedIsDecodedAndEveryByteCounts) {
  const CollectionSpec spec = {.dim = 5, .row_type = RowType::kFloat16, .id_type = IdType::kString};
  for (int64_t number = 1; number < 12; ++number) {
    const fault::UploadData data = fault::UploadData::Make(spec, number);
    const StoredBlock block = data.blocks[0].View(4);
    ASSERT_OK_AND_ASSIGN(const auto encoded, EncodeBlock(kIdentity, 100, block));
    std::vector<uint8_t> bytes = Written(encoded);
    ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeBlock(kIdentity, "p", 0, absl::MakeSpan(bytes)));
    EXPECT_EQ(decoded.header.first_row, 100);
    EXPECT_EQ(decoded.header.number, 4);
    ASSERT_EQ(decoded.ids.size(), block.ids->size());
    EXPECT_TRUE(absl::Span<const uint8_t>(decoded.rows) == block.rows);
    for (int64_t i = 0; i < block.ids->size(); ++i) {
      EXPECT_EQ(decoded.ids.Compare(i, *block.ids, i), 0);
      EXPECT_EQ(decoded.payloads.at(i), block.payloads->at(i));
      EXPECT_EQ(decoded.attributes.at(i), block.attributes->at(i));
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] ^= 32;
      EXPECT_THAT(DecodeBlock(kIdentity, "p", 0, absl::MakeSpan(bytes)), StatusIs(kDataLoss)) << i;
      bytes[i] ^= 32;
    }
  }
}

// Regression: memory was reserved for as many rows as the file states.
TEST(BlockCodecTest, MoreRowsThanBytesAreRefusedBeforeMemoryIsReserved) {
  const std::vector<uint8_t> bytes(12);
  for (const int64_t rows : {int64_t{4}, int64_t{1} << 40, INT64_MAX}) {
    BytesColumn values;
    EXPECT_THAT(DecodeValues(bytes, rows, &values), StatusIs(kDataLoss)) << rows;
    IdColumn ids(IdType::kString);
    EXPECT_THAT(DecodeIds(bytes, rows, &ids), StatusIs(kDataLoss)) << rows;
  }
}

TEST(BlockCodecTest, LargeBlocksHaveManyPieces) {
  const SegmentIdentity identity = {.store = kIdentity.store, .segment = 1, .dim = 1000};
  IdColumn ids;
  for (uint64_t i = 0; i < 1000; ++i) ids.AppendNumber(i);
  std::vector<uint8_t> rows(4'000'000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 7 + i / 1000);
  ASSERT_OK_AND_ASSIGN(const auto encoded, EncodeBlock(identity, 0, {.ids = &ids, .rows = rows}));
  EXPECT_EQ(encoded.header.PlanePieces(kVectorPlane), 4);
  std::vector<uint8_t> bytes = Written(encoded);
  ASSERT_OK(DecodeBlock(identity, "p", 0, absl::MakeSpan(bytes)));
  const int64_t third = encoded.header.PlaneBegin(kVectorPlane) + 2 * kPieceBytes;
  bytes[static_cast<size_t>(third + 5)] ^= 1;
  EXPECT_THAT(DecodeBlock(identity, "p", 10'000, absl::MakeSpan(bytes)),
              FailsWith(kDataLoss, "[" + std::to_string(10'000 + third) + ", " +
                                       std::to_string(10'000 + third + kPieceBytes) + ")"));
}

}  // namespace
}  // namespace nearfield::store
