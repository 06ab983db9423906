#include "server/store/segment_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::store {
namespace {

constexpr int64_t kWindowBytes = 4096;

}  // namespace

absl::StatusOr<SegmentReader> SegmentReader::Open(const Directory& directory,
                                                  const SegmentIdentity& identity, int64_t bytes,
                                                  bool may_be_longer) {
  absl::StatusOr<File> opened = directory.OpenFile(SegmentFileName(identity.segment), O_RDONLY);
  if (absl::IsNotFound(opened.status()) || absl::IsFailedPrecondition(opened.status())) {
    return absl::DataLossError(opened.status().message());  // the catalog names this file
  }
  ABSL_ASSIGN_OR_RETURN(File file, std::move(opened));
  SegmentReader reader(identity, std::move(file), bytes);
  ABSL_ASSIGN_OR_RETURN(const int64_t size, reader.file_.Size());
  if (size < bytes || (size > bytes && !may_be_longer)) {
    return absl::DataLossError(
        absl::StrCat(reader.path(), ": has ", size, " bytes; the catalog says ", bytes));
  }
  ABSL_RETURN_IF_ERROR(reader.file_.ReadAt(0, absl::MakeSpan(reader.header_)));
  ABSL_RETURN_IF_ERROR(
      CheckSegmentHeader(absl::MakeConstSpan(reader.header_), identity, reader.path()));
  reader.header_ = SealedHeader(reader.header_);
  return reader;
}

absl::StatusOr<BlockPlace> SegmentReader::NextBlock() {
  const int64_t end = std::min(offset_ + kBlockHeaderBytes, bytes_);
  if (offset_ < window_offset_ || end > window_offset_ + static_cast<int64_t>(window_.size())) {
    window_.resize(static_cast<size_t>(std::min(kWindowBytes, bytes_ - offset_)));
    window_offset_ = offset_;
    ABSL_RETURN_IF_ERROR(file_.ReadAt(offset_, absl::MakeSpan(window_)));
  }
  const absl::StatusOr<BlockHeader> header = ParseBlockHeader(absl::MakeConstSpan(window_).subspan(
      static_cast<size_t>(offset_ - window_offset_), static_cast<size_t>(end - offset_)));
  if (!header.ok()) {
    return BadBytes(path(), blocks_, offset_, end, header.status().message());
  }
  const BlockPlace place = {.offset = offset_, .header = *header};
  if (header->segment != identity_.segment || header->number != blocks_ ||
      header->first_row != rows_ || header->bytes() > bytes_ - offset_) {
    return BadBytes(path(), blocks_, offset_, end, "a block of another place");
  }
  offset_ = place.end();
  rows_ += header->rows;
  blocks_ += 1;
  return place;
}

absl::StatusOr<std::vector<BlockPlace>> SegmentReader::NextBlocks(int64_t bytes_max) {
  std::vector<BlockPlace> places;
  const int64_t begin = offset_;
  while (!AtEnd()) {
    const SegmentExtent before = {.blocks = blocks_, .rows = rows_, .bytes = offset_};
    ABSL_ASSIGN_OR_RETURN(const BlockPlace place, NextBlock());
    if (!places.empty() && place.end() - begin > bytes_max) {  // the first block of the next call
      blocks_ = before.blocks;
      rows_ = before.rows;
      offset_ = before.bytes;
      break;
    }
    places.push_back(place);
  }
  return places;
}

absl::Status SegmentReader::Read(absl::Span<const BlockPlace> places,
                                 absl::Span<uint8_t> bytes) const {
  return file_.ReadAt(places.front().offset, bytes);
}

absl::StatusOr<IdColumn> SegmentReader::ReadIds(const BlockPlace& place) const {
  const BlockHeader& header = place.header;
  // Header, table and the plane of ids are contiguous.
  std::vector<uint8_t> bytes(static_cast<size_t>(header.PlaneEnd(kIdPlane)));
  ABSL_RETURN_IF_ERROR(file_.ReadAt(place.offset, absl::MakeSpan(bytes)));
  const auto all = absl::MakeConstSpan(bytes);
  ABSL_RETURN_IF_ERROR(CheckPlanes(header, kIdPlane + 1, path(), place.offset, all));
  IdColumn ids(identity_.id_type);
  const absl::Status decoded =
      DecodeIds(all.subspan(static_cast<size_t>(header.PlaneBegin(kIdPlane)),
                            static_cast<size_t>(header.plane_bytes[kIdPlane])),
                header.rows, &ids);
  if (!decoded.ok()) {
    return BadBytes(path(), header.number, place.offset, place.end(), decoded.message());
  }
  return ids;
}

}  // namespace nearfield::store
