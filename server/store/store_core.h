// StoreCore: the state that the parts of the store share. Only server/store includes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/mutex.h"
#include "server/store/block_stream.h"
#include "server/store/commit_times.h"
#include "server/store/deleted_ids.h"
#include "server/store/metadata_db.h"
#include "server/store/row_patches.h"
#include "server/store/segment_file.h"
#include "server/store/store.h"

namespace nearfield::store {

// An upload that seems too old at a start is kept for this time, so that it can be resumed or
// repeated: its age is measured by the system clock, which may be wrong.
inline constexpr int64_t kGraceSeconds = 3600;

// Maximum bytes of the body of one record, approximately: far below SQLite's limit for one value.
inline constexpr int64_t kRecordBytesMax = int64_t{8} << 20;

// Segments that a commit adds to the list of segments or removes from it. Allocated before the
// commit, so that nothing is allocated after it.
struct SegmentChange {
  std::map<int64_t, std::shared_ptr<CommittedSegment>> added;
  std::map<int64_t, std::weak_ptr<CommittedSegment>> removed;
};

struct StoreCore {
  StoreOptions options;
  std::shared_ptr<const Directory> directory;
  std::atomic<bool> failed{false};  // failed or closed
  OrphanReport orphans;             // report of the start

  // Collections with failed reads. They have their own lock, because health checks read them while
  // commits sync.
  mutable Mutex read_mutex;
  std::map<int64_t, ReadFailures> read_failures ABSL_GUARDED_BY(read_mutex);

  mutable Mutex mutex ABSL_ACQUIRED_BEFORE(read_mutex);
  std::unique_ptr<MetadataDb> catalog ABSL_GUARDED_BY(mutex) ABSL_PT_GUARDED_BY(mutex);
  // The segments of the catalog, and removed ones that may still be read.
  std::map<int64_t, std::shared_ptr<CommittedSegment>> segments ABSL_GUARDED_BY(mutex);
  std::map<int64_t, std::weak_ptr<CommittedSegment>> segments_gone ABSL_GUARDED_BY(mutex);
  std::set<int64_t> writers ABSL_GUARDED_BY(mutex);  // segments being written
  CondVar writer_ended;                              // one of `writers` has left
  // Callers of open uploads that were begun or resumed since the store was opened. Only in memory:
  // a caller is a name that a client chooses, not part of the data.
  std::map<int64_t, std::string> upload_callers ABSL_GUARDED_BY(mutex);
  std::set<int64_t> compactions ABSL_GUARDED_BY(mutex);  // collections being compacted
  // Collections with a missing or damaged segment at the start. DataLoss names the segment.
  std::map<int64_t, absl::Status> damaged ABSL_GUARDED_BY(mutex);

  // Steady seconds of the opening of the store, and of the last use of each open upload since.
  int64_t opened_s ABSL_GUARDED_BY(mutex) = 0;
  std::map<int64_t, int64_t> touched_s ABSL_GUARDED_BY(mutex);
  // Number of the last commit before the opening of the store, and the numbers of later commits by
  // their time: a commit has no time that a change of the system clock could not make wrong.
  int64_t commits_opened ABSL_GUARDED_BY(mutex) = 0;
  CommitTimes commit_times ABSL_GUARDED_BY(mutex);

  // Returns Unavailable after a fatal error or the end of the store. Every call checks it first.
  absl::Status Usable() const;
  // Handles the result of a commit of the catalog. Ends the process for any error except
  // ResourceExhausted. Returns the status that the caller returns.
  absl::Status Survive(const absl::Status& status);
  // Ends the process, unless on_fatal returns; also without memory for the message.
  void Fail(const absl::Status& status) const noexcept;
  // Handles the result of work on segment files. Ends the process for Internal, which only calls
  // that change or sync a file return (file.h). No other error leaves the disk in an unknown state.
  absl::Status SurviveFile(const absl::Status& status);
  // Records a DataLoss of a read of a collection.
  void NoteRead(int64_t collection, const absl::Status& status) ABSL_LOCKS_EXCLUDED(read_mutex);
  // These end the writing of a segment, for those that wait in AwaitWriterEnd. LeaveUpload removes
  // the file of an upload whose collection was dropped meanwhile.
  void Leave(int64_t segment) noexcept ABSL_LOCKS_EXCLUDED(mutex);
  void LeaveUpload(int64_t segment) noexcept ABSL_LOCKS_EXCLUDED(mutex);
  void EndWriter(int64_t segment) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  int64_t Now() const;        // the system clock, which may be set: for display
  int64_t SteadyNow() const;  // for ages
  // Does nothing; clang then assumes that the mutex is held. For lambdas, which clang checks as
  // functions of their own.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(mutex) {}

  absl::StatusOr<CollectionRow> Find(int64_t collection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // As Find, for a collection that can be read. Errors: as Find; DataLoss.
  absl::StatusOr<CollectionRow> FindSound(int64_t collection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  SegmentIdentity Identity(const CollectionRow& collection, int64_t segment) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // See Store.
  uint64_t IncarnationOf(int64_t collection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns null if there is no such upload.
  const UploadRow* FindUpload(const UploadKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  UploadInfo InfoOf(const UploadRow& row) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Commits the transaction, and then applies `change`.
  absl::Status Commit(Transaction transaction, const CommitNote& note, SegmentChange change = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Add(const CollectionRow& collection, const SegmentRow& row, SegmentChange* change) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Remove(int64_t segment, SegmentChange* change) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Puts the removal of all segments, deletion and patch records of a collection into the
  // transaction.
  void RemoveRows(int64_t collection, Transaction* transaction, SegmentChange* change) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Apply(SegmentChange change) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Removes the file of an upload that a commit ended. A file that cannot be removed is an orphan.
  // The caller allocates the name before the commit, so that no file stays because memory ran out.
  void RemoveFile(const std::string& name) const noexcept;
  // Returns true if the list of segments is that of the catalog, and the segments of the
  // collection have at least its live rows. Holds after every commit. Allocates nothing.
  bool SegmentsAgree(int64_t collection) const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns the segments of a collection, older commits first.
  std::vector<std::shared_ptr<CommittedSegment>> SegmentsOf(int64_t collection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns the rows of a collection in one table, in the order of their ids.
  template <typename Row>
  std::vector<Row> RowsOf(int64_t collection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<Row> rows;
    for (const auto& [id, row] : catalog->tables().Of<Row>()) {
      if (row.collection == collection) rows.push_back(row);
    }
    return rows;
  }
  // Reads records of a collection. Holds the mutex for one record at a time, because all together
  // may have 1 GiB and commits would wait. `cancelled` is polled in between; may be null.
  // Errors: DataLoss; Cancelled; Aborted (a record was removed since its row was read).
  absl::StatusOr<RowRecords> ReadRecords(IdType type, absl::Span<const DeletionRow> deletions,
                                         absl::Span<const PatchRow> patches,
                                         const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex);
  template <typename Row>
  absl::StatusOr<std::string> ReadRecord(const Row& row, const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex);
  // Puts deletion records for these ids into the transaction, each of bounded size.
  void PutDeletions(int64_t collection, int64_t seq, const IdColumn& ids,
                    Transaction* transaction) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Appends a patch to `record`, which it puts into the transaction and empties when it is large.
  // FlushPatches puts the rest.
  void PutPatch(int64_t collection, const IdColumn& ids, int64_t index, const RowPatch& patch,
                PatchRecord* record, Transaction* transaction) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void FlushPatches(int64_t collection, PatchRecord* record, Transaction* transaction) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Records that an open upload was begun, resumed, checkpointed or left by its writer.
  void Touch(int64_t upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    touched_s[upload] = SteadyNow();
  }
  // Returns the steady seconds of the last use by this process; INT64_MIN if there was none.
  int64_t TouchedAt(int64_t upload) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns the seconds since the last use of an open upload. For a use by an earlier process, only
  // the system clock can measure it; the result is then at least the time since the start.
  int64_t UntouchedSeconds(const UploadRow& row) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Puts the removal of an upload and its result into the transaction.
  void RemoveUpload(int64_t id, Transaction* transaction) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Puts the removal of idle uploads into the transaction; returns their segments.
  std::vector<int64_t> RemoveIdleUploads(Transaction* transaction) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace nearfield::store
