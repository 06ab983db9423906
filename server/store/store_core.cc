#include "server/store/store_core.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/little_endian.h"

namespace nearfield::store {

absl::Status StoreCore::Usable() const {
  if (!failed.load()) return absl::OkStatus();
  return absl::UnavailableError(
      "the store is closed, or failed with an I/O error: restart the process");
}

absl::Status StoreCore::Survive(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  if (!failed.exchange(true)) Fail(status);
  return Usable();
}

void StoreCore::Fail(const absl::Status& status) const noexcept {
  if (options.on_fatal) {
    options.on_fatal(status);
    return;
  }
  std::fprintf(stderr, "nearfield: the store failed, the process ends: %s\n",
               status.ToString().c_str());
  ::_exit(kFatalExitCode);
}

absl::Status StoreCore::SurviveFile(const absl::Status& status) {
  return absl::IsInternal(status) ? Survive(status) : status;
}

void StoreCore::NoteRead(int64_t collection, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return;
  const MutexLock lock(read_mutex);
  ReadFailures& failures = read_failures[collection];
  failures.count += 1;
  failures.latest = status;
}

int64_t StoreCore::Now() const {
  return options.unix_seconds ? options.unix_seconds() : static_cast<int64_t>(std::time(nullptr));
}

int64_t StoreCore::SteadyNow() const {
  if (options.steady_seconds) return options.steady_seconds();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

absl::StatusOr<CollectionRow> StoreCore::Find(int64_t collection) const {
  const CollectionRow* const row = catalog->tables().Find<CollectionRow>(collection);
  if (row == nullptr) return absl::NotFoundError(absl::StrCat("no collection ", collection));
  return *row;
}

absl::StatusOr<CollectionRow> StoreCore::FindSound(int64_t collection) const {
  const auto known = damaged.find(collection);
  if (known != damaged.end()) return known->second;
  return Find(collection);
}

SegmentIdentity StoreCore::Identity(const CollectionRow& collection, int64_t segment) const {
  return {.store = catalog->store_id(),
          .collection = collection.id,
          .segment = segment,
          .dim = collection.spec.dim,
          .row_type = collection.spec.row_type,
          .id_type = collection.spec.id_type};
}

const UploadRow* StoreCore::FindUpload(const UploadKey& key) const {
  const int64_t* const id =
      catalog->tables().uploads.Find({.collection = key.collection_id, .token = key.token});
  return id == nullptr ? nullptr : catalog->tables().Find<UploadRow>(*id);
}

UploadInfo StoreCore::InfoOf(const UploadRow& row) const {
  const auto* const result = catalog->tables().Find<UploadResultRow>(row.id);
  return {.state = row.state,
          .mode = row.mode,
          .next_block = row.next_block,
          .rows_count = row.rows,
          .bytes_durable = row.bytes_durable,
          .rows_replaced = result != nullptr ? result->rows_replaced : 0,
          .epoch = static_cast<uint64_t>(row.epoch)};
}

absl::Status StoreCore::Commit(Transaction transaction, const CommitNote& note,
                               SegmentChange change) {
  absl::Status committed = catalog->Commit(std::move(transaction), note);
  if (!committed.ok()) return Survive(committed);
  Apply(std::move(change));
  return committed;
}

uint64_t StoreCore::IncarnationOf(int64_t collection) const {
  const Digest digest = Sha256()
                            .Add(std::string_view("nearfield incarnation of a collection"))
                            .Add(std::string_view(catalog->store_id()))
                            .Add(std::string_view(catalog->directory_incarnation()))
                            .AddNumber(collection)
                            .Value();
  return std::max<uint64_t>(1, GetUint64(digest.data()));
}

void StoreCore::Leave(int64_t segment) noexcept {
  const MutexLock lock(mutex);
  EndWriter(segment);
}

void StoreCore::LeaveUpload(int64_t segment) noexcept {
  const MutexLock lock(mutex);
  EndWriter(segment);
  const bool dropped = catalog->tables().Find<UploadRow>(segment) == nullptr;
  if (dropped && !failed.load()) RemoveFile(SegmentFileName(segment));
}

void StoreCore::EndWriter(int64_t segment) noexcept {
  CHECK_EQ(writers.erase(segment), size_t{1});
  writer_ended.NotifyAll();
}

void StoreCore::Add(const CollectionRow& collection, const SegmentRow& row,
                    SegmentChange* change) const {
  change->added[row.id] =
      std::make_shared<CommittedSegment>(directory, Identity(collection, row.id), row);
}

void StoreCore::Remove(int64_t segment, SegmentChange* change) const {
  const auto it = segments.find(segment);
  if (it != segments.end()) change->removed[segment] = it->second;
}

void StoreCore::RemoveRows(int64_t collection, Transaction* transaction,
                           SegmentChange* change) const {
  for (const SegmentRow& row : RowsOf<SegmentRow>(collection)) {
    transaction->Remove<SegmentRow>(row.id);
    Remove(row.id, change);
  }
  for (const DeletionRow& row : RowsOf<DeletionRow>(collection)) {
    transaction->Remove<DeletionRow>(row.id);
  }
  for (const PatchRow& row : RowsOf<PatchRow>(collection)) transaction->Remove<PatchRow>(row.id);
}

void StoreCore::Apply(SegmentChange change) noexcept {
  std::erase_if(segments_gone, [](const auto& gone) { return gone.second.expired(); });
  for (const auto& [id, segment] : change.removed) {
    const auto it = segments.find(id);
    CHECK(it != segments.end());
    it->second->Doom();
    segments.erase(it);
  }
  segments_gone.merge(change.removed);
  segments.merge(change.added);
  CHECK(change.added.empty());
}

bool StoreCore::SegmentsAgree(int64_t collection) const noexcept {
  const Tables& tables = catalog->tables();
  int64_t rows_max = 0;
  for (const auto& [id, segment] : segments) {
    const SegmentRow* const row = tables.Find<SegmentRow>(id);
    if (row == nullptr || row->rows != segment->row().rows) return false;
    if (row->collection != collection) continue;
    rows_max += row->rows - static_cast<int64_t>(row->superseded.size() / 8);
  }
  const CollectionRow* const row = tables.Find<CollectionRow>(collection);
  return row != nullptr && row->rows_live <= rows_max &&
         segments.size() == tables.Of<SegmentRow>().size();
}

void StoreCore::RemoveFile(const std::string& name) const noexcept {
  CatchOutOfMemory([&] { return directory->Remove(name); }).IgnoreError();
}

std::vector<std::shared_ptr<CommittedSegment>> StoreCore::SegmentsOf(int64_t collection) const {
  std::vector<std::shared_ptr<CommittedSegment>> found;
  for (const auto& [id, segment] : segments) {
    if (segment->row().collection == collection) found.push_back(segment);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a->row().seq, a->row().id) < std::make_pair(b->row().seq, b->row().id);
  });
  return found;
}

template <typename Row>
absl::StatusOr<std::string> StoreCore::ReadRecord(const Row& row,
                                                  const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return absl::CancelledError("cancelled");
  const MutexLock lock(mutex);
  if (catalog->tables().Find<Row>(row.id) != nullptr) return catalog->ReadBody(row);
  return absl::AbortedError("the collection was dropped, replaced or compacted meanwhile");
}

absl::StatusOr<RowRecords> StoreCore::ReadRecords(IdType type,
                                                  absl::Span<const DeletionRow> deletions,
                                                  absl::Span<const PatchRow> patches,
                                                  const std::function<bool()>& cancelled) {
  RowRecords records = {.deleted = DeletedIds(type), .patches = RowPatches(type)};
  for (const DeletionRow& row : deletions) {
    ABSL_ASSIGN_OR_RETURN(const std::string ids, ReadRecord(row, cancelled));
    ABSL_RETURN_IF_ERROR(records.deleted.Add(ids, row.ids_count, row.seq));
  }
  for (const PatchRow& row : patches) {
    ABSL_ASSIGN_OR_RETURN(const std::string bytes, ReadRecord(row, cancelled));
    ABSL_ASSIGN_OR_RETURN(const PatchRecord record, PatchRecord::Decode(type, bytes, row.rows));
    records.patches.Add(record);
  }
  return records;
}

void StoreCore::PutDeletions(int64_t collection, int64_t seq, const IdColumn& ids,
                             Transaction* transaction) const {
  IdColumn part(ids.type());
  int64_t part_bytes = 0;
  for (int64_t i = 0; i < ids.size(); ++i) {
    part.AppendFrom(ids, i);
    part_bytes +=
        ids.type() == IdType::kUint64 ? 8 : 4 + static_cast<int64_t>(ids.string(i).size());
    if (part_bytes < kRecordBytesMax && i + 1 < ids.size()) continue;
    const std::vector<uint8_t> bytes = EncodeIds(part);
    transaction->PutRecord(DeletionRow{.id = catalog->AllocateId(),
                                       .collection = collection,
                                       .seq = seq,
                                       .ids_count = part.size()},
                           std::string(bytes.begin(), bytes.end()));
    part = IdColumn(ids.type());
    part_bytes = 0;
  }
}

int64_t StoreCore::TouchedAt(int64_t upload) const {
  const auto touched = touched_s.find(upload);
  return touched == touched_s.end() ? INT64_MIN : touched->second;
}

int64_t StoreCore::UntouchedSeconds(const UploadRow& row) const {
  const int64_t touched = TouchedAt(row.id);
  if (touched != INT64_MIN) return SteadyNow() - touched;
  return std::max(SteadyNow() - opened_s, Now() - row.touched_unix_s);
}

void StoreCore::RemoveUpload(int64_t id, Transaction* transaction) const {
  transaction->Remove<UploadRow>(id);
  if (catalog->tables().Find<UploadResultRow>(id) != nullptr) {
    transaction->Remove<UploadResultRow>(id);
  }
}

std::vector<int64_t> StoreCore::RemoveIdleUploads(Transaction* transaction) const {
  const int64_t idle_max = options.upload_idle_s_max;
  const auto is_idle = [&](int64_t id, const UploadRow& row) {
    AssertLocked();
    if (const auto touched = touched_s.find(id); touched != touched_s.end()) {
      return SteadyNow() - touched->second > idle_max;
    }
    return Now() - row.touched_unix_s > idle_max &&
           SteadyNow() - opened_s > std::min(idle_max, kGraceSeconds);
  };
  std::vector<int64_t> removed;
  const Tables& tables = catalog->tables();
  for (const int64_t id : tables.uploads.open()) {
    if (writers.count(id) == 0 && is_idle(id, *tables.Find<UploadRow>(id))) {
      transaction->Remove<UploadRow>(id);
      removed.push_back(id);
    }
  }
  return removed;
}

}  // namespace nearfield::store
