#include "server/store/segment_file.h"

#include <algorithm>
#include <array>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "server/store/planted_bug.h"

namespace nearfield::store {
namespace {

// Room is reserved in steps of this where an upload outgrows what it declared.
constexpr int64_t kReserveStep = int64_t{4} << 20;
// Bytes after which the kernel is told to begin writing, so that the sync at the end is short.
constexpr int64_t kWriteSoonBytes = int64_t{8} << 20;

void AddPart(absl::Span<const uint8_t> bytes, std::vector<iovec>* parts) {
  static constexpr std::array<uint8_t, kPlaneAlignment> kZeros = {};
  if (bytes.empty()) return;
  // writev takes pointers to mutable bytes and only reads them.
  parts->push_back({.iov_base = const_cast<uint8_t*>(bytes.data()), .iov_len = bytes.size()});
  const auto size = static_cast<int64_t>(bytes.size());
  if (const int64_t padding = RoundUp(size, kPlaneAlignment) - size; padding > 0) {
    parts->push_back(
        {.iov_base = const_cast<uint8_t*>(kZeros.data()), .iov_len = static_cast<size_t>(padding)});
  }
}

// A sync that failed for whatever reason is an I/O error, a full disk included: what it dropped
// cannot be written again.
absl::Status SyncFailure(const absl::Status& status) {
  return status.ok() ? status : absl::InternalError(status.message());
}

}  // namespace

CommittedSegment::~CommittedSegment() {
  // A file that cannot be removed now is an orphan, and the next start removes it.
  if (doomed_.load()) directory_->Remove(name()).IgnoreError();
}

absl::StatusOr<SegmentOutput> SegmentOutput::Create(std::shared_ptr<const Directory> directory,
                                                    const SegmentIdentity& identity,
                                                    int64_t bytes_expected) {
  const std::string name = SegmentFileName(identity.segment);
  const int exclusive = Planted(PlantedBug::kOrphansKept) ? 0 : O_EXCL;
  ABSL_ASSIGN_OR_RETURN(File file, directory->OpenFile(name, O_RDWR | O_CREAT | exclusive));
  SegmentOutput output(std::move(directory), identity, std::move(file));
  SegmentHeaderBytes header = EncodeSegmentHeader(identity);
  iovec part = {.iov_base = header.data(), .iov_len = header.size()};
  absl::Status status = output.ReserveTo(std::max(kSegmentHeaderBytes, bytes_expected));
  if (status.ok()) status = output.file_.WriteAt(0, absl::MakeSpan(&part, 1));
  if (!status.ok()) {
    output.Discard().IgnoreError();  // an orphan at worst
    return status;
  }
  output.digest_.Add(absl::MakeConstSpan(header));
  output.extent_.bytes = kSegmentHeaderBytes;
  return output;
}

absl::StatusOr<SegmentOutput> SegmentOutput::Reopen(std::shared_ptr<const Directory> directory,
                                                    const SegmentIdentity& identity,
                                                    const SegmentExtent& extent, Sha256 digest) {
  ABSL_ASSIGN_OR_RETURN(File file, directory->OpenFile(SegmentFileName(identity.segment), O_RDWR));
  SegmentOutput output(std::move(directory), identity, std::move(file));
  output.extent_ = extent;
  output.digest_ = std::move(digest);
  output.bytes_reserved_ = extent.bytes;
  output.bytes_sent_ = extent.bytes;
  ABSL_RETURN_IF_ERROR(output.Trim());
  return output;
}

absl::Status SegmentOutput::ReserveTo(int64_t bytes) {
  if (bytes <= bytes_reserved_) return absl::OkStatus();
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
  ABSL_ASSIGN_OR_RETURN(const EncodedBlock encoded, EncodeBlock(identity_, extent_.rows, block));
  const int64_t end = extent_.bytes + encoded.header.bytes();
  if (end > bytes_reserved_) ABSL_RETURN_IF_ERROR(ReserveTo(end + kReserveStep));
  std::vector<iovec> parts;
  for (const absl::Span<const uint8_t> bytes :
       {absl::MakeConstSpan(encoded.head), absl::MakeConstSpan(encoded.ids), encoded.vectors,
        absl::MakeConstSpan(encoded.payloads), absl::MakeConstSpan(encoded.attributes)}) {
    AddPart(bytes, &parts);
  }
  ABSL_RETURN_IF_ERROR(file_.WriteAt(extent_.bytes, absl::MakeSpan(parts)));
  digest_.Add(absl::MakeConstSpan(encoded.head));
  extent_.blocks += 1;
  extent_.rows += encoded.header.rows;
  extent_.bytes = end;
  WriteSoon();
  return absl::OkStatus();
}

absl::Status SegmentOutput::Sync() {
  absl::Status synced = SyncFailure(file_.SyncData());
  if (!synced.ok() && !Planted(PlantedBug::kSyncErrorIgnored)) return synced;
  return SyncFailure(directory_->Sync());
}

absl::Status SegmentOutput::Discard() {
  file_.Close();
  return directory_->Remove(SegmentFileName(identity_.segment));
}

}  // namespace nearfield::store
