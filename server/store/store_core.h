// What the parts of the store share; only server/store includes it.
#ifndef NEARFIELD_SERVER_STORE_STORE_CORE_H_
#define NEARFIELD_SERVER_STORE_STORE_CORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/block_stream.h"
#include "server/store/catalogue.h"
#include "server/store/deleted_ids.h"
#include "server/store/segment_file.h"
#include "server/store/store.h"

namespace nearfield::store {

// Segments that a commit adds to the books of a store, or takes out of them. Made before the
// commit, so that nothing is allocated after it.
struct SegmentChange {
  std::map<int64_t, std::shared_ptr<CommittedSegment>> added;
  std::map<int64_t, std::weak_ptr<CommittedSegment>> removed;
};

struct StoreCore {
  StoreOptions options;
  std::shared_ptr<const Directory> directory;
  std::atomic<bool> failed{false};  // or closed
  OrphanReport orphans;             // of the start

  // Collections of which something could not be read. A lock of their own, because health checks
  // look here while commits sync.
  mutable std::mutex read_mutex;
  std::map<int64_t, ReadFailures> read_failures;

  mutable std::mutex mutex;  // guards what follows
  std::unique_ptr<Catalogue> catalogue;
  std::map<int64_t, std::shared_ptr<CommittedSegment>> segments;     // of the catalogue
  std::map<int64_t, std::weak_ptr<CommittedSegment>> segments_gone;  // some may still be read
  std::set<int64_t> writers;                                         // segments being written
  // Of open uploads begun or resumed since the store was opened. Kept in memory alone: a caller is
  // a name that a client gives itself, not a fact of the data.
  std::map<int64_t, std::string> upload_callers;
  std::set<int64_t> compactions;  // collections being compacted
  // Collections with a segment that was missing or damaged at the start: DataLoss, names it.
  std::map<int64_t, absl::Status> damaged;

  // Steady seconds: when the store was opened, and when each open upload was last touched since.
  int64_t opened_s = 0;
  std::map<int64_t, int64_t> touched_s;

  // Unavailable after a fatal error or the end of the store. Checked at the begin of every call.
  absl::Status Usable() const;
  // The outcome of a commit of the catalogue. Ends the process for any error except
  // ResourceExhausted; returns what the caller shall return.
  absl::Status Survive(const absl::Status& status);
  // Ends the process, unless on_fatal returns; also where there is no memory left to say why.
  void Fail(const absl::Status& status) const noexcept;
  // The outcome of work on segment files. Ends the process for Internal, which only a call that
  // changes or syncs a file gives (file.h). Nothing else left the disk in an unknown state.
  absl::Status SurviveFile(const absl::Status& status);
  // Remembers a DataLoss that reading a collection met. Takes the lock.
  void NoteRead(int64_t collection, const absl::Status& status);
  // A segment is not written any more. Takes the lock.
  void Leave(int64_t segment) noexcept;
  int64_t Now() const;        // of the system's clock, which may be set: for display
  int64_t SteadyNow() const;  // for ages

  // The rest with the lock held.
  absl::StatusOr<CollectionRow> Find(int64_t collection) const;
  // The same of one that can be read. Errors: and DataLoss.
  absl::StatusOr<CollectionRow> FindSound(int64_t collection) const;
  SegmentIdentity Identity(const CollectionRow& collection, int64_t segment) const;
  uint64_t IncarnationOf(int64_t collection) const;  // see Store
  const UploadRow* FindUpload(const std::string& token) const;
  // Commits the transaction, then changes the books.
  absl::Status Commit(Transaction transaction, const CommitNote& note, SegmentChange change = {});
  void Add(const CollectionRow& collection, const SegmentRow& row, SegmentChange* change) const;
  void Remove(int64_t segment, SegmentChange* change) const;
  void Apply(SegmentChange change) noexcept;
  // Removes the file of an upload that a commit ended. One that stays is an orphan at worst. The
  // caller makes the name before the commit, so that no file stays for want of memory.
  void RemoveFile(const std::string& name) const noexcept;
  // Older commits first.
  std::vector<std::shared_ptr<CommittedSegment>> SegmentsOf(int64_t collection) const;
  // All deletion records of a collection.
  absl::StatusOr<DeletedIds> ReadDeleted(const CollectionRow& collection) const;
  // Records for these ids, cut to a bounded size each.
  void PutDeletions(int64_t collection, int64_t seq, const IdColumn& ids,
                    Transaction* transaction) const;
  // An open upload was begun, resumed, checkpointed or left by its writer.
  void Touch(int64_t upload) { touched_s[upload] = SteadyNow(); }
  // Steady seconds of the last touch by this process; INT64_MIN where there was none.
  int64_t TouchedAt(int64_t upload) const;
  // Seconds since the last touch of an open upload. Only the system's clock tells it of a touch by
  // an earlier process: at least the time since the start.
  int64_t UntouchedSeconds(const UploadRow& row) const;
  // Puts the removal of an upload and its result into the transaction.
  void RemoveUpload(int64_t id, Transaction* transaction) const;
  // Puts the removal of idle uploads into the transaction; returns their segments.
  std::vector<int64_t> RemoveIdleUploads(Transaction* transaction) const;
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_STORE_CORE_H_
