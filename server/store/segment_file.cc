#include "server/store/segment_file.h"

#include <algorithm>
#include <array>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield::store {
namespace {

// Step in which disk space is reserved if an upload exceeds its declared size.
constexpr int64_t kReserveStep = int64_t{4} << 20;
// Bytes after which writeback is started, so that the final sync is short.
constexpr int64_t kWriteSoonBytes = int64_t{8} << 20;

void AddPart(absl::Span<const uint8_t> bytes, std::vector<iovec>* parts) {
  static constexpr std::array<uint8_t, kPlaneAlignment> kZeros = {};
  if (bytes.empty()) return;
  // writev takes pointers to mutable bytes but only reads them.
  parts->push_back({.iov_base = const_cast<uint8_t*>(bytes.data()), .iov_len = bytes.size()});
  const auto size = static_cast<int64_t>(bytes.size());
  if (const int64_t padding = RoundUp(size, kPlaneAlignment) - size; padding > 0) {
    parts->push_back(
        {.iov_base = const_cast<uint8_t*>(kZeros.data()), .iov_len = static_cast<size_t>(padding)});
  }
}

// Calls `sync`, and returns Internal for every error, also for a full disk: dropped data cannot be
// written again. Without memory for the message, the error has none.
template <typename Sync>
absl::Status SyncOrInternal(Sync sync) {
  absl::Status synced = CatchOutOfMemory(sync);
  if (synced.ok() || absl::IsInternal(synced)) return synced;
  const absl::Status failed =
      CatchOutOfMemory([&]() -> absl::Status { return absl::InternalError(synced.message()); });
  return absl::IsInternal(failed) ? failed : absl::Status(absl::StatusCode::kInternal, "");
}

}  // namespace

absl::Status CheckRoom(const Directory& directory, int64_t bytes, int64_t free_bytes_min) {
  ABSL_ASSIGN_OR_RETURN(const int64_t free, directory.FreeBytes());
  if (bytes <= free - free_bytes_min) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(directory.path(), ": ", bytes, " bytes of disk are needed, and ", free_bytes_min,
                   " more that stay free for deletes; ", free, " are free"));
}

CommittedSegment::~CommittedSegment() {
  // If the file cannot be removed now, it is an orphan that the next start removes.
  if (doomed_.load()) CatchOutOfMemory([this] { return directory_->Remove(name()); }).IgnoreError();
}

absl::StatusOr<SegmentOutput> SegmentOutput::Create(std::shared_ptr<const Directory> directory,
                                                    const SegmentIdentity& identity,
                                                    const SegmentPlan& plan) {
  const std::string name = SegmentFileName(identity.segment);
  absl::StatusOr<File> file = directory->OpenFile(name, O_RDWR | O_CREAT | O_EXCL);
  // The data directory is gone, so all later writes would be lost even if they succeed.
  if (absl::IsNotFound(file.status())) return absl::InternalError(file.status().message());
  ABSL_RETURN_IF_ERROR(file.status());
  absl::Cleanup discard = [&] {  // an orphan at worst
    CatchOutOfMemory([&] { return directory->Remove(name); }).IgnoreError();
  };
  SegmentOutput output(directory, identity, *std::move(file));
  output.header_ = EncodeSegmentHeader(identity, {.sealed = false, .commits = plan.commits});
  output.free_bytes_min_ = plan.free_bytes_min;
  ABSL_RETURN_IF_ERROR(output.ReserveTo(std::max(kSegmentHeaderBytes, plan.bytes_expected)));
  ABSL_RETURN_IF_ERROR(output.WriteHeader());
  output.digest_.Add(absl::MakeConstSpan(SealedHeader(output.header_)));
  output.extent_.bytes = kSegmentHeaderBytes;
  std::move(discard).Cancel();
  return output;
}

absl::StatusOr<SegmentOutput> SegmentOutput::Reopen(std::shared_ptr<const Directory> directory,
                                                    const SegmentIdentity& identity,
                                                    const SegmentExtent& extent, Sha256 digest,
                                                    int64_t free_bytes_min) {
  ABSL_ASSIGN_OR_RETURN(File file, directory->OpenFile(SegmentFileName(identity.segment), O_RDWR));
  SegmentOutput output(std::move(directory), identity, std::move(file));
  ABSL_RETURN_IF_ERROR(output.file_.ReadAt(0, absl::MakeSpan(output.header_)));
  output.free_bytes_min_ = free_bytes_min;
  output.extent_ = extent;
  output.digest_ = std::move(digest);
  output.bytes_reserved_ = extent.bytes;
  output.bytes_sent_ = extent.bytes;
  ABSL_RETURN_IF_ERROR(output.Trim());
  return output;
}

absl::Status SegmentOutput::WriteHeader() { return file_.WriteAt(0, absl::MakeConstSpan(header_)); }

absl::Status SegmentOutput::AppendDivided(const StoredBlock& block, int64_t bytes_max) {
  const int64_t rows = block.ids->size();
  if (rows == 1 || PlaneBytes(block) <= bytes_max) {
    StoredBlock next = block;
    next.number = extent_.blocks;
    return Append(next);
  }
  const auto row_bytes = static_cast<int64_t>(block.rows.size()) / rows;
  const auto append = [&](int64_t begin, int64_t end) {
    IdColumn ids(block.ids->type());
    BytesColumn payloads;
    BytesColumn attributes;
    for (int64_t row = begin; row < end; ++row) {
      ids.AppendFrom(*block.ids, row);
      payloads.Append(block.payloads->at(row));
      attributes.Append(block.attributes->at(row));
    }
    const StoredBlock part = {
        .ids = &ids,
        .rows = block.rows.subspan(static_cast<size_t>(begin * row_bytes),
                                   static_cast<size_t>((end - begin) * row_bytes)),
        .payloads = &payloads,
        .attributes = &attributes};
    return AppendDivided(part, bytes_max);
  };
  ABSL_RETURN_IF_ERROR(append(0, rows / 2));
  return append(rows / 2, rows);
}

absl::Status SegmentOutput::Seal() {
  const SegmentHeaderBytes sealed = SealedHeader(header_);
  if (sealed == header_) return absl::OkStatus();
  const SegmentHeaderBytes open = std::exchange(header_, sealed);
  absl::Status written = WriteHeader();
  if (!written.ok()) header_ = open;
  return written;
}

absl::Status SegmentOutput::ReserveTo(int64_t bytes) {
  if (bytes <= bytes_reserved_) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(CheckRoom(*directory_, bytes - bytes_reserved_, free_bytes_min_));
  ABSL_RETURN_IF_ERROR(file_.Reserve(bytes_reserved_, bytes - bytes_reserved_));
  bytes_reserved_ = bytes;
  return absl::OkStatus();
}

void SegmentOutput::WriteSoon() {
  if (extent_.bytes - bytes_sent_ < kWriteSoonBytes) return;
  file_.StartWriteback(bytes_sent_, extent_.bytes - bytes_sent_);
  bytes_sent_ = extent_.bytes;
}

absl::Status SegmentOutput::Append(const StoredBlock& block) {
  CHECK_EQ(block.number, extent_.blocks);
  ABSL_ASSIGN_OR_RETURN(const EncodedBlock encoded, EncodeBlock(identity_, extent_.rows, block));
  const int64_t end = extent_.bytes + encoded.header.bytes();
  if (end > bytes_reserved_) ABSL_RETURN_IF_ERROR(ReserveTo(end + kReserveStep));
  CHECK_LE(end, bytes_reserved_);
  std::vector<iovec> parts;
  for (const absl::Span<const uint8_t> bytes :
       {absl::MakeConstSpan(encoded.head), absl::MakeConstSpan(encoded.ids), encoded.vectors,
        absl::MakeConstSpan(encoded.payloads), absl::MakeConstSpan(encoded.attributes)}) {
    AddPart(bytes, &parts);
  }
  ABSL_RETURN_IF_ERROR(file_.WriteParts(extent_.bytes, absl::MakeSpan(parts)));
  digest_.Add(absl::MakeConstSpan(encoded.head));
  extent_.blocks += 1;
  extent_.rows += encoded.header.rows;
  extent_.bytes = end;
  WriteSoon();
  return absl::OkStatus();
}

absl::Status SegmentOutput::Sync() {
  ABSL_RETURN_IF_ERROR(SyncOrInternal([this] { return file_.SyncData(); }));
  return SyncOrInternal([this] { return directory_->Sync(); });
}

absl::Status SegmentOutput::Discard() {
  file_.Close();
  return directory_->Remove(name_);
}

}  // namespace nearfield::store
